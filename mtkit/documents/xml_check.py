"""Check of XML from others, before anything else reads it: well-formed, and without entities of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from xml.parsers import expat


class XmlError(Exception):
    """Text that is not XML, or XML that declares entities.

    Args:
        line: number of the line.
        reason: what is wrong.
    """

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line


class XmlCheck:
    """Checks that a text which comes in chunks is well-formed XML without entities of its own; nothing is fetched.

    Args:
        encoding: of chunks of bytes; None: that of a byte order mark or of the XML declaration. Texts are UTF-8.
        element: receives name and attributes of each element inside the outermost one.
    """

    def __init__(
        self, encoding: str | None = "utf-8", element: Callable[[str, Mapping[str, str]], None] | None = None
    ) -> None:
        self._element = element
        self._parser = expat.ParserCreate(encoding)
        self._parser.EntityDeclHandler = self._refuse
        self._parser.StartElementHandler = self._start
        self.root: str | None = None  # name of the outermost element

    def feed(self, chunk: str | bytes, *, is_last: bool = False) -> None:
        """Take the next chunk.

        Raises:
            XmlError: what came up to here is not well-formed, or declares an entity.
        """
        try:
            self._parser.Parse(chunk.encode("utf-8", "surrogatepass") if isinstance(chunk, str) else chunk, is_last)
        except expat.ExpatError as error:
            raise XmlError(error.lineno, f"not well-formed XML: {expat.ErrorString(error.code)}") from error

    def _start(self, name: str, attributes: object) -> None:
        self.root = name.rpartition(":")[2]
        self._parser.StartElementHandler = self._element

    def _refuse(self, name: str, *declaration: object) -> None:
        reason = f"declares the entity {name[:60]}; documents with entities of their own are refused"
        raise XmlError(self._parser.CurrentLineNumber, reason)

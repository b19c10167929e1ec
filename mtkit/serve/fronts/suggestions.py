"""Suggestions of better translations, in a translation memory (TMX) from which a model can be trained further."""

from __future__ import annotations

import datetime
from pathlib import Path

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mtkit import __version__
from mtkit.documents.markup import escape_xml
from mtkit.errors import DataError
from mtkit.io.files import translate_write_errors
from mtkit.serve.clients import Clients
from mtkit.serve.core import TranslationService
from mtkit.serve.fronts.requests import admit
from mtkit.serve.request_error import RequestError

MAX_TEXT = 2000  # characters
MAX_BYTES = 64 << 20  # of the file
_END = b"</body></tmx>\n"
_BEGINNING = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<tmx version="1.4"><header creationtool="mtkit" '
    f'creationtoolversion="{__version__}" segtype="sentence" o-tmf="mtkit" adminlang="en" srclang="*all*" '
    'datatype="plaintext"/><body>\n'
)


class Suggestions:
    """The route that takes suggestions, and their file."""

    def __init__(self, path: Path, service: TranslationService, clients: Clients) -> None:
        """Open the file, which is begun if it does not exist.

        Raises:
            DataError: it is another file than this server writes.
            ReadWriteError: it cannot be written.
        """
        self._path, self._service, self._clients = path, service, clients
        with translate_write_errors(path):
            if not path.exists():
                path.write_bytes(_BEGINNING.encode() + _END)
            with path.open("rb+") as file:
                file.seek(-min(len(_END), path.stat().st_size), 2)
                if file.read() != _END:
                    raise DataError(
                        f"{path}: not a file of suggestions, which ends with </body></tmx>; name another one"
                    )

    def routes(self) -> list[Route]:
        """The route."""
        return [Route("/suggest", self.suggest, methods=["POST"])]

    async def suggest(self, request: Request) -> Response:
        """Take a text `q` and its translation `s`."""
        fields, _ = await admit(request, self._clients)
        texts = [" ".join(fields.text(name).split()) for name in ("q", "s")]
        if not all(0 < len(text) <= MAX_TEXT for text in texts):
            raise RequestError(400, f"q and s: texts of 1 to {MAX_TEXT:,} characters are expected")
        direction = self._service.find_direction(fields.text("source"), fields.text("target"))
        if self._path.stat().st_size > MAX_BYTES:
            raise RequestError(503, "the file of suggestions is full", retry_after=3600)
        date = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%SZ")
        variants = "".join(
            f'<tuv xml:lang="{code}"><seg>{escape_xml(text)}</seg></tuv>'
            for code, text in zip(direction, texts, strict=True)
        )
        with self._path.open("rb+") as file:
            file.seek(-len(_END), 2)
            file.write(f'<tu creationdate="{date}">{variants}</tu>\n'.encode() + _END)
        return JSONResponse({"success": True})

"""Fields of requests, which come as JSON, as a form, or in the address; each error is one sentence."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections import OrderedDict, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, unquote_plus

from python_multipart.exceptions import MultipartParseError
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from mtkit.errors import DataError
from mtkit.io.json_text import parse_json, reject_constant
from mtkit.serve.clients import Clients, RequestError
from mtkit.serve.fronts.exchange import UNCOUNTED_BYTES, body_of
from mtkit.translate.glossary import Glossary

FORM = "application/x-www-form-urlencoded"
MAX_FIELDS = 1000
MAX_FILES = 4
MAX_VALUES = 50_000  # of JSON
VALUE_BYTES = 64  # of a value of JSON in memory beside its text
MAX_TEXTS = 1000  # of a request
MAX_TERMS = 5000  # of a glossary
MAX_CHECKED = 64  # glossaries that are known to be valid
_CHECKED: OrderedDict[bytes, None] = OrderedDict()  # their hashes
_TRUE, _FALSE = ("1", "true"), ("0", "false")
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_KEY_OF_JSON = re.compile(rb'"api_key"\s*:\s*("(?:[^"\\]|\\.){0,1000}")', re.DOTALL)
_KEY_OF_FORM = re.compile(rb"(?:^|&)api_key=([^&]{0,1000})")


class RequestFields:
    """The fields of a request by name; a list where one name has several values.

    Methods raise RequestError with status 400 if a field has another type or range.
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = {name: value for name, value in values.items() if value is not None}

    def __contains__(self, name: str) -> bool:
        return name in self._values

    @property
    def names(self) -> set[str]:
        """The names of all fields."""
        return {*self._values}

    def text(self, name: str, default: str | None = None) -> str:
        """A field that is one text; `default` if it is missing, without which that is an error."""
        if name not in self._values:
            if default is None:
                raise RequestError(400, f"{name} is missing")
            return default
        value = self._values[name]
        if not isinstance(value, str):
            raise RequestError(400, f"{name}: a text is expected")
        return without_surrogates(value)

    def texts(self, name: str) -> list[str]:
        """A field that is a text or a list of texts."""
        value = self._values.get(name, [])
        values = value if isinstance(value, list) else [value]
        if not values:
            raise RequestError(400, f"{name} is missing" if name not in self._values else f"{name} is empty")
        if len(values) > MAX_TEXTS:
            raise RequestError(400, f"{name}: {len(values):,} texts; at most {MAX_TEXTS:,} are translated at once")
        if not all(isinstance(each, str) for each in values):
            raise RequestError(400, f"{name}: a text or a list of texts is expected")
        return [without_surrogates(each) for each in values]

    def record(self, name: str) -> dict[str, Any]:
        """A field that is an object of JSON; an empty one if it is missing."""
        value = self._values.get(name, {})
        if not isinstance(value, dict):
            raise RequestError(400, f"{name}: an object is expected")
        return value

    def records(self, name: str) -> list[dict[str, Any]]:
        """A field that is a list of objects of JSON."""
        value = self._values.get(name)
        if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
            raise RequestError(400, f"{name}: a list of objects is expected")
        return value

    def is_list(self, name: str) -> bool:
        """Return whether a field is a list."""
        return isinstance(self._values.get(name), list)

    def integer(self, name: str, default: int, *, maximum: int) -> int:
        """A field that is an integer from 0 to a maximum, as a number or in digits."""
        value = self._values.get(name, default)
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
            value = int(value)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= maximum:
            raise RequestError(400, f"{name}: an integer from 0 to {maximum} is expected")
        return value

    def flag(self, name: str) -> bool:
        """A field that is true or false, or 1 or 0 in a form; false if it is missing."""
        value = self._values.get(name, False)
        if isinstance(value, str | int) and (word := str(value).lower()) in (*_TRUE, *_FALSE):
            return word in _TRUE
        raise RequestError(400, f"{name}: true or false is expected")

    def choice(self, name: str, choices: Sequence[str], default: str) -> str:
        """A field that is one of several words."""
        value = self.text(name, default)
        if value not in choices:
            raise RequestError(400, f"{name}: {value[:40]!r} is not one of {', '.join(choices)}")
        return value

    async def terms(self, name: str) -> str:
        """A field that is a list of terms, each with its allowed translations, as JSON; "" if there are none.

        A form has it as the text of a JSON list. It is checked once, and not by the thread that serves all.
        """
        value = self._values.get(name, [])
        if isinstance(value, str):
            try:
                value = parse_json(value)
            except ValueError as error:
                raise RequestError(400, f"{name}: in a form, a JSON list of terms is expected") from error
        if not isinstance(value, list) or len(value) > MAX_TERMS:
            raise RequestError(400, f"{name}: a list of at most {MAX_TERMS:,} terms is expected")
        for term in value:
            if not isinstance(term, list) or not term or not all(isinstance(form, str) for form in term):
                raise RequestError(400, f"{name}: each term is a list of the term and its translations")
        return await terms_as_json(value) if value else ""

    def file(self, name: str) -> UploadFile:
        """A field that is an uploaded file."""
        value = self._values.get(name)
        if not isinstance(value, UploadFile) or not value.filename:
            raise RequestError(400, f"{name}: a file is expected, in a form of the type multipart/form-data")
        return value


async def terms_as_json(terms: Sequence[Sequence[str]]) -> str:
    """The terms of a glossary as JSON.

    Raises:
        RequestError: one is blank or too long, or two contradict each other.
    """
    text = without_surrogates(json.dumps(terms, ensure_ascii=False, separators=(",", ":")))
    digest = hashlib.sha256(text.encode()).digest()
    if digest not in _CHECKED:
        try:
            await asyncio.to_thread(lambda: Glossary.of(json.loads(text)))
        except DataError as error:
            raise RequestError(400, f"glossary: {error}") from error
        _CHECKED[digest] = None
        if len(_CHECKED) > MAX_CHECKED:
            _CHECKED.popitem(last=False)
    return text


async def admit(request: Request, clients: Clients, *, lists: Sequence[str] = ()) -> tuple[RequestFields, str]:
    """The fields of a request, and the name of its client, which may ask now.

    The key is looked for before the body is read, or else before more is made of the body than its bytes.

    Args:
        request: the request.
        clients: those who may ask.
        lists: names of fields of forms that are lists even with one value.

    Raises:
        RequestError: the body is not what its type says, the key is missing or wrong, or the client asks too often.
    """
    address = "" if request.client is None else request.client.host  # a proxy's client, if the proxy is trusted
    pairs: list[tuple[str, Any]] = []
    if request.scope["query_string"]:  # reading an empty one takes time
        pairs = list(request.query_params.multi_items())
    body, key = body_of(request), dict(pairs).get("api_key") or None
    scheme, _, value = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() in ("deepl-auth-key", "bearer") and value.strip():
        key = value.strip()
    is_known = key is not None or not clients.needs_key
    client = await clients.admit(key, address) if is_known else address
    body.set_client(client, is_known=is_known)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    content = b""
    if kind == "multipart/form-data":
        pairs += await _read_form(request)
        key = next((value for name, value in pairs if name == "api_key" and isinstance(value, str)), None)
    else:
        content = b"".join([chunk async for chunk in request.stream()])
        key = None if is_known else _find_key(content, is_form=kind == FORM)
    if not is_known:
        client = await clients.admit(key or None, address)
        body.set_client(client, is_known=True)
    if kind != FORM and len(content) > UNCOUNTED_BYTES:
        body.hold(4 * len(content) + VALUE_BYTES * _count_values(content))
    values: Any = {}
    try:
        if kind == FORM:
            pairs += parse_qsl(content.decode(), keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS)
        elif content:
            values = parse_json(content.decode(), reject_constant)
    except UnicodeDecodeError as error:
        raise RequestError(400, "the body is not UTF-8") from error
    except ValueError as error:
        message = f"the form has more than {MAX_FIELDS:,} fields" if kind == FORM else "the body is not JSON"
        raise RequestError(400, message) from error
    if not isinstance(values, dict):
        raise RequestError(400, "the body is not a JSON object")
    by_name: dict[str, list[Any]] = defaultdict(list)
    for name, each in pairs:
        by_name[name].append(each)
    of_form = {name: each if len(each) > 1 or name in lists else each[0] for name, each in by_name.items()}
    fields = RequestFields({**of_form, **values})
    fields.text("api_key", "")
    return fields, client


def _find_key(content: bytes, *, is_form: bool) -> str | None:
    """The field `api_key` of a form or of JSON that is not parsed; None without one."""
    if is_form:
        fields = _KEY_OF_FORM.findall(content)
        return unquote_plus(fields[-1].decode("latin-1")) if fields else None
    values = _KEY_OF_JSON.findall(content)
    try:
        return str(parse_json(values[-1].decode())) if values else None
    except ValueError:
        return None


def _count_values(content: bytes) -> int:
    """The number of values of JSON, of which each takes memory that its bytes do not tell.

    Raises:
        RequestError: there are more than any request has.
    """
    marks = _STRING.sub(b"", content)
    count = sum(marks.count(mark) for mark in (b",", b"[", b"{"))
    if count > MAX_VALUES:
        raise RequestError(400, f"the body is JSON of more than {MAX_VALUES:,} values")
    return count


class _FormReader(MultiPartParser):
    """The fields and files of a form; what is not in files is limited together."""

    text_bytes = 0
    max_text_bytes = 0

    def on_part_data(self, data: bytes, start: int, end: int) -> None:
        """Take a part of a value; called by the parser."""
        if self._current_part.file is None:
            self.text_bytes += end - start
            if self.text_bytes > self.max_text_bytes:
                raise RequestError(413, f"the fields of the request have more than {self.max_text_bytes:,} bytes")
        super().on_part_data(data, start, end)


async def _read_form(request: Request) -> list[tuple[str, Any]]:
    """The fields and files of a form.

    Raises:
        RequestError: it is not a form, or too long.
    """
    body = body_of(request)
    reader = _FormReader(
        request.headers, request.stream(), max_files=MAX_FILES, max_fields=MAX_FIELDS, max_part_size=1 << 30
    )
    reader.max_text_bytes = body.max_text_bytes
    try:
        items = (await reader.parse()).multi_items()
    except (MultiPartException, MultipartParseError, ValueError, KeyError) as error:
        raise RequestError(400, "the body is not a form of its type, multipart/form-data") from error
    body.uploads += [value for _, value in items if isinstance(value, UploadFile)]
    return items


def without_surrogates(text: str) -> str:
    """The text, which UTF-8 can write."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")

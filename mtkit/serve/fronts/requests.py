"""Fields of requests, which come as JSON, as a form, or in the address; each error is one sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl

from python_multipart.exceptions import MultipartParseError
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request

from mtkit.errors import DataError
from mtkit.io.json_text import parse_json, reject_constant
from mtkit.serve.clients import Clients
from mtkit.serve.core import Terms
from mtkit.serve.request_error import RequestError
from mtkit.translate.fidelity.glossary import Glossary

MAX_FIELDS = 1000
MAX_TEXTS = 1000  # of a request
MAX_TERMS = 5000  # of a glossary
_TRUE, _FALSE = ("1", "true"), ("0", "false")


class RequestFields:
    """The fields of a request by name; a list where one name has several values.

    Methods raise RequestError with status 400 if a field has another type or range.
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = {name: value for name, value in values.items() if value is not None}

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def text(self, name: str, default: str | None = None) -> str:
        """A field that is one text; `default` if it is missing, without which that is an error."""
        if name not in self._values:
            if default is None:
                raise RequestError(400, f"{name} is missing")
            return default
        value = self._values[name]
        if not isinstance(value, str):
            raise RequestError(400, f"{name}: a text is expected")
        return _without_surrogates(value)

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
        return [_without_surrogates(each) for each in values]

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

    def terms(self, name: str) -> Terms:
        """A field that is a list of terms, each with its allowed translations; its length is limited.

        A form has it as the text of a JSON list.
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
        terms = tuple(tuple(map(_without_surrogates, term)) for term in value)
        check_terms(terms)
        return terms

    def file(self, name: str) -> UploadFile:
        """A field that is an uploaded file."""
        value = self._values.get(name)
        if not isinstance(value, UploadFile) or not value.filename:
            raise RequestError(400, f"{name}: a file is expected, in a form of the type multipart/form-data")
        return value


def check_terms(terms: Terms) -> None:
    """Check the terms of a glossary.

    Raises:
        RequestError: one is blank or too long, or two contradict each other.
    """
    try:
        Glossary.of(terms)
    except DataError as error:
        raise RequestError(400, f"glossary: {error}") from error


async def admit(request: Request, clients: Clients, *, lists: Sequence[str] = ()) -> tuple[RequestFields, str]:
    """The fields of a request, and the name of its client, which may ask now.

    Raises:
        RequestError: the body is not what its type says, the key is missing or wrong, or the client asks too often.
    """
    fields = await _read_fields(request, lists=lists)
    address = "" if request.client is None else request.client.host  # a proxy's client, if the proxy is trusted
    return fields, clients.admit(_key_of(request, fields), address)


def _key_of(request: Request, fields: RequestFields) -> str | None:
    """The API key of a request: a field, or a header of DeepL's or of the usual form."""
    if "api_key" in fields and (key := fields.text("api_key")):
        return key
    scheme, _, value = request.headers.get("authorization", "").partition(" ")
    return value.strip() or None if scheme.lower() in ("deepl-auth-key", "bearer") else None


async def _read_fields(request: Request, *, lists: Sequence[str] = ()) -> RequestFields:
    """The fields of a request.

    Args:
        request: the request.
        lists: names of fields of forms that are lists even with one value.

    Raises:
        RequestError: the body is not what its type says.
    """
    pairs: list[tuple[str, Any]] = list(request.query_params.multi_items())
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "multipart/form-data":
        try:
            form = await request.form(max_fields=MAX_FIELDS, max_files=4, max_part_size=1 << 30)
        except (HTTPException, MultipartParseError, ValueError, KeyError) as error:
            raise RequestError(400, "the body is not a form of its type, multipart/form-data") from error
        pairs += form.multi_items()
    elif kind == "application/x-www-form-urlencoded":
        pairs += _parse_form(await request.body())
    elif body := await request.body():
        return RequestFields({**_collect(pairs, lists), **parse_json_object(body)})
    return RequestFields(_collect(pairs, lists))


def _collect(pairs: Sequence[tuple[str, Any]], lists: Sequence[str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name in lists:
            values.setdefault(name, []).append(value)
        elif name in values:
            values[name] = [*(values[name] if isinstance(values[name], list) else [values[name]]), value]
        else:
            values[name] = value
    return values


def _parse_form(body: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(body.decode("utf-8"), keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS)
    except UnicodeDecodeError as error:
        raise RequestError(400, "the body is not UTF-8") from error
    except ValueError as error:
        raise RequestError(400, f"the form has more than {MAX_FIELDS:,} fields") from error


def parse_json_object(body: bytes) -> dict[str, Any]:
    """The JSON object of a body.

    Raises:
        RequestError: it is something else.
    """
    try:
        value = parse_json(body.decode("utf-8"), reject_constant)
    except UnicodeDecodeError as error:
        raise RequestError(400, "the body is not UTF-8") from error
    except ValueError as error:
        raise RequestError(400, "the body is not JSON") from error
    if not isinstance(value, dict):
        raise RequestError(400, "the body is not a JSON object")
    return value


def _without_surrogates(text: str) -> str:
    """The text, which UTF-8 can write."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")

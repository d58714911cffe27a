"""Reads request bodies within limits and parses them strictly. Errors name the field and the rule."""

import asyncio
import re
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from typing import Any, Literal
from uuid import UUID

import orjson
from aiohttp import web
from aiohttp.streams import StreamReader

from ..domain.errors import BadRequest, PayloadTooLarge
from ..domain.identifiers import NAMESPACE_LEVELS_MAX, NamespaceIdentifier, TabularIdentifier, parse_path_name, uuid_or_none
from ..domain.invalid_values import nearest_name
from ..domain.json_rules import count_values, violated_rule, wide_string_bytes
from .byte_budget import UNCOUNTED_BYTES_MAX, BudgetReservation
from .errors import RequestTimeout, UnsupportedMediaType
from .limits import ApiLimits
from .path_parameters import existing_tabular

JsonObject = dict[str, Any]

_FIELD_SHOWN_LENGTH_MAX = 64
_WITH_TIME_ZONE = re.compile(r"[Tt ]\d\d:\d\d.*(?:[Zz]|[+-]\d\d:\d\d)$")

VALUE_BYTES = 64
"""Approximate memory of one parsed value as `count_values` counts them: a short string, or a third of an object with one member."""
_SMALL_BODY_BYTES_MAX = 4 * 1024
"""Parsing a body of this size takes at most 0.1 MB and less than a millisecond, so its memory is neither estimated nor counted."""
_PARSED_INLINE_BYTES_MAX = 256 * 1024
"""The body with its parsed form. Larger ones are parsed in a thread; parsing and checking this much takes about a millisecond."""


async def _read_body(request: web.Request, limits: ApiLimits, reservation: BudgetReservation) -> bytes:
    """The bytes of the body; `reservation` grows with them.

    Raises PayloadTooLarge, RequestTimeout, UnsupportedMediaType, BudgetExhausted, and BadRequest for an incomplete body. Compressed
    bodies are refused: no client sends them, and a small one can expand to gigabytes.
    """
    headers = request.headers
    if headers.get("Content-Encoding", "identity").lower() != "identity":
        raise UnsupportedMediaType("Invalid header 'Content-Encoding': request bodies must be sent uncompressed")
    length = request.content_length
    if length is not None and length > limits.body_bytes_max:
        raise PayloadTooLarge(f"Invalid body: longer than {limits.body_bytes_max} bytes")
    try:
        async with asyncio.timeout(limits.body_seconds_max):
            return await _read(request.content, limits, reservation)
    except (TimeoutError, web.RequestPayloadError, ConnectionError) as error:
        # The traceback's frames hold the error and the received part of the body: a cycle that would last until a garbage collection.
        error.__traceback__ = None
        if not isinstance(error, TimeoutError):
            raise BadRequest("Invalid body: incomplete") from error
        raise RequestTimeout(
            f"Invalid body: not complete within {limits.body_seconds_max:g} seconds, or no data arrived for {limits.stall_seconds_max:g}"
        ) from None


async def read_json_object(request: web.Request, limits: ApiLimits, reservation: BudgetReservation) -> tuple[bytes, JsonObject]:
    """The bytes of the body and the JSON object in it; `reservation` grows with both. Raises as `_read_body` and `parse_json_object` do."""
    body = await _read_body(request, limits, reservation)
    size = await reserve_for_parsed(body, reservation)
    if size > _PARSED_INLINE_BYTES_MAX:
        return body, await asyncio.to_thread(parse_json_object, body, limits)
    if size > UNCOUNTED_BYTES_MAX:
        # Lets requests that arrived at the same time reserve their memory, or be refused, before this one releases its own.
        await asyncio.sleep(0)
    return body, parse_json_object(body, limits)


async def _read(content: StreamReader, limits: ApiLimits, reservation: BudgetReservation) -> bytes:
    """Reads the body without aiohttp's `read`, which keeps the body with the request until the connection's next request."""
    pieces: list[bytes] = []
    size = counted = 0
    while piece := await content.readany():
        pieces.append(piece)
        size += len(piece)
        if size > limits.body_bytes_max:
            raise PayloadTooLarge(f"Invalid body: longer than {limits.body_bytes_max} bytes")
        if size > UNCOUNTED_BYTES_MAX:
            reservation.reserve(size - counted)
            counted = size
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


async def reserve_for_parsed(body: bytes, reservation: BudgetReservation) -> int:
    """Reserves memory for the JSON and its parsed form. Returns how many bytes that is. Raises BudgetExhausted."""
    size = len(body)
    if size > _SMALL_BODY_BYTES_MAX:
        size += count_values(body) * VALUE_BYTES
        if size > UNCOUNTED_BYTES_MAX:
            reservation.raise_to(size)
        size += await asyncio.to_thread(wide_string_bytes, body) if size > _PARSED_INLINE_BYTES_MAX else wide_string_bytes(body)
        if size > UNCOUNTED_BYTES_MAX:
            reservation.raise_to(size)
    return size


def parse_json_object(body: bytes, limits: ApiLimits) -> JsonObject:
    """The one JSON object in `body`.

    Refused, because Postgres or an engine could not read it later: NaN and infinity, lone surrogates, bytes that are not UTF-8, NUL in
    a key or value, nesting deeper than `json_depth_max`, more values than `json_values_max`.
    """
    if not body:
        raise BadRequest("Invalid body: empty, must be a JSON object")
    if count_values(body) > limits.json_values_max:
        raise BadRequest(f"Invalid body: contains more than {limits.json_values_max} values")
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BadRequest(f"Invalid body: not JSON: {error}") from None
    if not isinstance(document, dict):
        raise BadRequest("Invalid body: must be a JSON object")
    rule = violated_rule(body, document, limits.json_depth_max)
    if rule is not None:
        raise BadRequest(f"Invalid body: {rule}")
    return document


class BodyReader:
    """Typed access to the fields of a JSON object. An explicit null counts as an absent field."""

    __slots__ = ("_limits", "_path", "_values")

    def __init__(self, values: JsonObject, limits: ApiLimits, path: str = "") -> None:
        self._values, self._limits, self._path = values, limits, path

    def invalid_error(self, name: str, rule: str) -> BadRequest:
        return BadRequest(f"Invalid field '{self._path}{name}': {rule}")

    def missing_error(self, name: str) -> BadRequest:
        return BadRequest(f"Missing field '{self._path}{name}'")

    def _required(self, name: str) -> Any:
        value = self._values.get(name)
        if value is None:
            raise self.missing_error(name)
        return value

    def refuse_unknown(self, known: Collection[str]) -> None:
        """Raises BadRequest for a field that is not in `known`."""
        for name in self._values:
            if name not in known:
                shown = name[:_FIELD_SHOWN_LENGTH_MAX]
                nearest = nearest_name(shown, known)
                hint = "" if nearest is None else f"; did you mean {nearest!r}?"
                raise BadRequest(f"Unknown field '{self._path}{shown}'{hint}")

    def text(self, name: str) -> str:
        value = self._required(name)
        if not isinstance(value, str):
            raise self.invalid_error(name, "must be a string")
        return value

    def text_or_none(self, name: str) -> str | None:
        return None if self._values.get(name) is None else self.text(name)

    def integer_or_none(self, name: str) -> int | None:
        value = self._values.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            raise self.invalid_error(name, "must be a whole number")
        return value

    def time_or_none(self, name: str) -> datetime | None:
        """An RFC 3339 time."""
        text = self.text_or_none(name)
        if text is None:
            return None
        try:
            at = datetime.fromisoformat(text).astimezone(UTC) if _WITH_TIME_ZONE.search(text) else None
        except (ValueError, OverflowError):
            at = None
        if at is None:
            raise self.invalid_error(name, "must be an RFC 3339 time with a time zone")
        return at

    def ids(self, name: str, items_max: int) -> list[UUID]:
        """A list of UUIDs; empty if the field is absent."""
        ids = [uuid_or_none(text) for text in self.texts(name, items_max)]
        if None in ids:
            raise self.invalid_error(name, "must be a list of UUIDs")
        return [each for each in ids if each is not None]

    def integers_or_none(self, name: str, items_max: int) -> list[int] | None:
        if self._values.get(name) is None:
            return None
        values = self._list(name, items_max)
        if not all(isinstance(value, int) and not isinstance(value, bool) for value in values):
            raise self.invalid_error(name, "must be a list of whole numbers")
        return values

    def boolean(self, name: str) -> bool:
        """False if the field is absent."""
        value = self._values.get(name)
        if value is not None and not isinstance(value, bool):
            raise self.invalid_error(name, "must be true or false")
        return bool(value)

    def required_boolean(self, name: str) -> bool:
        self._required(name)
        return self.boolean(name)

    def has(self, name: str) -> bool:
        return self._values.get(name) is not None

    def object(self, name: str) -> JsonObject:
        value = self._required(name)
        if not isinstance(value, dict):
            raise self.invalid_error(name, "must be an object")
        return value

    def object_or_none(self, name: str) -> JsonObject | None:
        return None if self._values.get(name) is None else self.object(name)

    def fields(self, name: str) -> "BodyReader":
        return BodyReader(self.object(name), self._limits, f"{self._path}{name}.")

    def _list(self, name: str, items_max: int) -> list[Any]:
        values = self._values.get(name)
        if values is None:
            return []
        if not isinstance(values, list):
            raise self.invalid_error(name, "must be a list")
        if len(values) > items_max:
            raise self.invalid_error(name, f"has more than {items_max} elements")
        return values

    def objects(self, name: str, items_max: int) -> list[JsonObject]:
        """A list of objects; empty if the field is absent."""
        values = self._list(name, items_max)
        if not all(isinstance(value, dict) for value in values):
            raise self.invalid_error(name, "must be a list of objects")
        return values

    def each(self, name: str, items_max: int) -> "list[BodyReader]":
        return [
            BodyReader(value, self._limits, f"{self._path}{name}[{index}].") for index, value in enumerate(self.objects(name, items_max))
        ]

    def texts(self, name: str, items_max: int) -> list[str]:
        """A list of strings; empty if the field is absent."""
        values = self._list(name, items_max)
        if not all(isinstance(value, str) for value in values):
            raise self.invalid_error(name, "must be a list of strings")
        return values

    def texts_or_none(self, name: str, items_max: int) -> list[str] | None:
        return None if self._values.get(name) is None else self.texts(name, items_max)

    def text_lists(self, name: str, items_max: int) -> list[list[str]]:
        """A list of lists of strings; empty if the field is absent."""
        values = self._list(name, items_max)
        if not all(isinstance(value, list) and all(isinstance(text, str) for text in value) for value in values):
            raise self.invalid_error(name, "must be a list of lists of strings")
        return values

    def properties(self, name: str) -> dict[str, str]:
        """A map of strings within the limits on properties; empty if the field is absent."""
        values = self._values.get(name)
        if values is None:
            return {}
        limits = self._limits
        if not isinstance(values, dict) or not all(isinstance(value, str) for value in values.values()):
            raise self.invalid_error(name, "must be an object whose values are strings")
        if len(values) > limits.properties_max:
            raise self.invalid_error(name, f"has more than {limits.properties_max} properties")
        if any(len(key) > limits.property_key_bytes_max or len(key.encode()) > limits.property_key_bytes_max for key in values):
            raise self.invalid_error(name, f"has a key longer than {limits.property_key_bytes_max} bytes")
        if any(len(value.encode()) > limits.property_value_bytes_max for value in values.values()):
            raise self.invalid_error(name, f"has a value longer than {limits.property_value_bytes_max} bytes")
        return values

    def name(self, name: str, what: str, parse: Callable[[str, str], str] = parse_path_name) -> str:
        """The name of a new object, by the rules of domain/identifiers.py."""
        text = self.text(name)
        try:
            return parse(text, what)
        except BadRequest as error:
            raise self.invalid_error(name, error.message) from None

    def namespace(self, name: str) -> NamespaceIdentifier:
        """A list of namespace levels, by the rules of domain/identifiers.py."""
        self._required(name)
        levels = self.texts(name, NAMESPACE_LEVELS_MAX)
        try:
            return NamespaceIdentifier.parse(levels)
        except BadRequest as error:
            raise self.invalid_error(name, error.message) from None

    def identifier(self, name: str, what: str) -> TabularIdentifier:
        """A TableIdentifier of the spec: `{"namespace": [...], "name": "..."}`."""
        identifier = self.fields(name)
        return TabularIdentifier(identifier.namespace("namespace"), identifier.name("name", what))

    def existing_identifier(self, name: str, kind: Literal["table", "view"]) -> TabularIdentifier:
        """A TableIdentifier of an existing object. Raises NoSuchTable or NoSuchView if no object can have that name."""
        identifier = self.fields(name)
        identifier._required("namespace")
        return existing_tabular(identifier.texts("namespace", NAMESPACE_LEVELS_MAX), identifier.text("name"), kind)

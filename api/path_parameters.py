"""Parses path segments, query parameters and warehouse references; each is decoded exactly once.

aiohttp's `match_info` cannot be used: it does not decode `+`, so that the Java client's `a+b` (a space) and `a%2Bb` (a plus) become
one name. Paths are therefore split while encoded, and each segment is form-decoded: `+` and `%20` are a space.
"""

import contextlib
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Literal
from urllib.parse import parse_qsl, unquote_to_bytes

from ..domain.errors import MESSAGE_LENGTH_MAX, BadRequest, NoSuchNamespace, NoSuchTable, NoSuchView
from ..domain.identifiers import NAME_CODE_POINTS_MAX, NamespaceIdentifier, TabularIdentifier, uuid_or_none

LEVEL_SEPARATOR = "\x1f"
"""Joins namespace levels in paths and in `parent`; the `namespace-separator` of the spec, whose default it is."""

_HEXADECIMAL_DIGITS = frozenset("0123456789abcdefABCDEF")
_CONTROL_CHARACTER = re.compile("[\x00-\x1f\x7f-\x9f]")
_PARAMETER_SHOWN_LENGTH_MAX = 64
_TIME_WITHOUT_ZONE_LENGTH = len("2026-01-01 10:00")


def decode_segment(segment: str, what: str) -> str:
    """Decodes one path segment. Raises BadRequest, with a message that names `what`, for an invalid escape or bytes that are not UTF-8."""
    if "%" not in segment and "+" not in segment and segment.isascii():
        return segment
    escape = segment.find("%")
    while escape >= 0:
        if len(segment) < escape + 3 or not _HEXADECIMAL_DIGITS.issuperset(segment[escape + 1 : escape + 3]):
            raise BadRequest(f"Invalid {what}: a percent sign must be followed by two hexadecimal digits")
        escape = segment.find("%", escape + 3)
    try:
        return unquote_to_bytes(segment.replace("+", " ")).decode()
    except UnicodeError:
        raise BadRequest(f"Invalid {what}: not UTF-8") from None


def normalize_separator(text: str, separator: str) -> str:
    """Replaces the separator that getConfig advertises by LEVEL_SEPARATOR, in an encoded path segment or a parameter.

    LEVEL_SEPARATOR itself stays valid: clients up to Iceberg 1.10 know no other.
    """
    encoded = "".join(f"%{byte:02X}" for byte in separator.encode())
    for spelled in (encoded, encoded.lower(), separator):
        text = text.replace(spelled, LEVEL_SEPARATOR)
    return text


def parse_query(raw_query: str) -> Mapping[str, str]:
    """Parameters by name; the last value of a repeated parameter counts. Raises BadRequest if not UTF-8, or for too many parameters."""
    return dict(_parameters(raw_query)) if raw_query else {}


def parameter_values(raw_query: str, name: str) -> list[str]:
    """All values of a parameter that may be repeated."""
    return [value for each, value in _parameters(raw_query) if each == name]


def _parameters(raw_query: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(raw_query, keep_blank_values=True, errors="strict", max_num_fields=100)
    except ValueError:
        raise BadRequest("Invalid query: not UTF-8, or too many parameters") from None


def check_parameters(raw_query: str, known: Collection[str], *, repeatable: Collection[str] = ()) -> None:
    """Refuses unknown and repeated parameters: if a filter were ignored, the response would contain everything."""
    if not raw_query:
        return
    names = [name for name, _ in _parameters(raw_query)]
    for number, name in enumerate(names):
        shown = name[:_PARAMETER_SHOWN_LENGTH_MAX]
        if name not in known:
            there_are = f"the parameters are {', '.join(sorted(known))}" if known else "this operation has no parameters"
            raise BadRequest(f"Unknown parameter '{shown}': {there_are}")
        if name in names[:number] and name not in repeatable:
            raise BadRequest(f"Invalid parameter '{shown}': must be given only once")


def _refuse_malformed(text: str, what: str) -> str:
    """Returns `text`. Raises BadRequest if it is empty or contains a control character (including NUL)."""
    if not text:
        raise BadRequest(f"Invalid {what}: must not be empty")
    if _CONTROL_CHARACTER.search(text):
        raise BadRequest(f"Invalid {what}: contains a control character")
    return text


def _may_exist(levels: Sequence[str]) -> bool:
    """False if a name is empty, too long or contains a control character: no object has it, and the database is not queried for it."""
    return all(0 < len(level) <= NAME_CODE_POINTS_MAX and not _CONTROL_CHARACTER.search(level) for level in levels)


def parse_existing_namespace(segment: str) -> NamespaceIdentifier:
    """The namespace that a request refers to. Raises NoSuchNamespace if no namespace can have that name.

    Other invalid names pass, and the lookup results in 404; one that is not NFC finds the object whose name is its NFC form. Engines send
    names that do not exist: Spark loads `db.table` as a namespace when it reads `db.table.snapshots`.
    """
    levels = decode_segment(segment, "namespace").split(LEVEL_SEPARATOR)
    if not _may_exist(levels):
        raise NoSuchNamespace(f"Namespace does not exist: {_shown('.'.join(levels))}")
    return NamespaceIdentifier(tuple(levels))


def parse_existing_tabular(namespace: str, name: str, kind: Literal["table", "view"]) -> TabularIdentifier:
    """The table or view that a request refers to, as lenient as parse_existing_namespace. Raises NoSuchTable or NoSuchView."""
    return existing_tabular(decode_segment(namespace, "namespace").split(LEVEL_SEPARATOR), decode_segment(name, f"{kind} name"), kind)


def existing_tabular(levels: Sequence[str], name: str, kind: Literal["table", "view"]) -> TabularIdentifier:
    """As parse_existing_tabular, from names that are decoded already."""
    if not _may_exist([*levels, name]):
        refused = NoSuchTable if kind == "table" else NoSuchView
        raise refused(f"{kind.capitalize()} does not exist: {_shown('.'.join([*levels, name]))}")
    return TabularIdentifier(NamespaceIdentifier(tuple(levels)), name)


def _shown(name: str) -> str:
    """A name for an error message: shortened, with its control characters escaped."""
    return _CONTROL_CHARACTER.sub(lambda found: f"\\u{ord(found[0]):04X}", name[:MESSAGE_LENGTH_MAX])


def parse_queried_tabular(namespace: str, name: str, what: str) -> TabularIdentifier:
    """The table or view named by query parameters, which are decoded already; as lenient as parse_existing_namespace."""
    levels = tuple(_refuse_malformed(level, "namespace level") for level in namespace.split(LEVEL_SEPARATOR))
    return TabularIdentifier(NamespaceIdentifier(levels), _refuse_malformed(name, what))


def parse_new_namespace(segment: str) -> NamespaceIdentifier:
    """The namespace in which an object is created, by the full rules of domain/identifiers.py."""
    return NamespaceIdentifier.parse(decode_segment(segment, "namespace").split(LEVEL_SEPARATOR))


def parse_new_tabular(namespace: str, name: str, what: str) -> TabularIdentifier:
    """The table that a commit with `assert-create` creates, by the full rules of domain/identifiers.py."""
    return TabularIdentifier.parse(parse_new_namespace(namespace), decode_segment(name, what), what)


def parse_parent(parent: str) -> list[NamespaceIdentifier]:
    """The possible meanings of a `parent` parameter, the most likely first.

    Java joins plain levels. PyIceberg percent-encodes each level before the whole is encoded again, and older Trino encoded `%1F` twice.
    A text that still contains escapes is therefore first taken literally, and decoded only if no such namespace exists.
    """
    readings = [parent]
    if "%" in parent:
        with contextlib.suppress(UnicodeError):
            readings.append(unquote_to_bytes(parent).decode())
    return [
        NamespaceIdentifier(tuple(_refuse_malformed(level, "parent") for level in reading.split(LEVEL_SEPARATOR)))
        for reading in dict.fromkeys(readings)
    ]


def parse_warehouse_reference(text: str) -> str:
    """Checks `[<project>/]<id or name>[@<position or time>]`. The `+` of a time zone, a space after form decoding, is restored."""
    name, at, moment = text.partition("@")
    if at and len(moment) > _TIME_WITHOUT_ZONE_LENGTH and moment[-6] == " " and moment[-3] == ":":
        moment = f"{moment[:-6]}+{moment[-5:]}"
    return _refuse_malformed(f"{name}{at}{moment}", "warehouse")


def names_project(reference: str) -> bool:
    """Whether the project of a warehouse reference is known without the request's: `<project>/<name>`, or an id."""
    name = reference.partition("@")[0]
    return "/" in name or uuid_or_none(name) is not None


def parse_boolean(text: str, what: str) -> bool:
    """`true` or `false` in any case: PyIceberg sends Python's spelling, `purgeRequested=False`."""
    lowered = text.lower()
    if lowered not in ("true", "false"):
        raise BadRequest(f"Invalid parameter '{what}': must be true or false")
    return lowered == "true"

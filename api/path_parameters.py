"""What a request's address names: path segments, query parameters and the reference of a warehouse, decoded once and exactly.

aiohttp's own `match_info` is of no use here: it leaves `+` alone, so that the Java client's `a+b` (a space) and `a%2Bb` (a plus) become
one name. Segments are therefore split while still encoded, and each is decoded by form rules: `+` and `%20` are a space.
"""

import contextlib
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Literal
from urllib.parse import parse_qsl, unquote_to_bytes

from ..domain.errors import MESSAGE_LENGTH_MAX, BadRequest, NoSuchNamespace, NoSuchTable, NoSuchView
from ..domain.identifiers import NAME_CODE_POINTS_MAX, NamespaceIdentifier, TabularIdentifier

LEVEL_SEPARATOR = "\x1f"
"""Joins namespace levels in paths and in `parent`; the `namespace-separator` of the spec, whose default it is."""

_HEXADECIMAL_DIGITS = frozenset("0123456789abcdefABCDEF")
_CONTROL_CHARACTER = re.compile("[\x00-\x1f\x7f-\x9f]")
_PARAMETER_SHOWN_LENGTH_MAX = 64
_TIME_WITHOUT_ZONE_LENGTH = len("2026-01-01 10:00")


def decode_segment(segment: str, what: str) -> str:
    """The text of one encoded path segment; `what` opens the refusal of a broken escape or of bytes that are not UTF-8."""
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


def respell_levels(text: str, separator: str) -> str:
    """`text`, a path segment still encoded or a parameter, with the separator that config advertises made LEVEL_SEPARATOR.

    The specification's own is understood all the same: clients up to Iceberg 1.10 know no other.
    """
    encoded = "".join(f"%{byte:02X}" for byte in separator.encode())
    for spelled in (encoded, encoded.lower(), separator):
        text = text.replace(spelled, LEVEL_SEPARATOR)
    return text


def parse_query(raw_query: str) -> Mapping[str, str]:
    """Parameters by name; of a repeated parameter the last counts. Raises BadRequest for what is not UTF-8 or has no end of parameters."""
    return dict(_parameters(raw_query)) if raw_query else {}


def parameter_values(raw_query: str, name: str) -> list[str]:
    """Of a parameter that may be repeated."""
    return [value for each, value in _parameters(raw_query) if each == name]


def _parameters(raw_query: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(raw_query, keep_blank_values=True, errors="strict", max_num_fields=100)
    except ValueError:
        raise BadRequest("Invalid query: not UTF-8, or too many parameters") from None


def check_parameters(raw_query: str, known: Collection[str], *, repeatable: Collection[str] = ()) -> None:
    """Refuse parameters that are unknown or repeated: a filter that is ignored would answer everything."""
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
    """`text`, unless no client could mean it: empty, or holding a control character (NUL among them)."""
    if not text:
        raise BadRequest(f"Invalid {what}: must not be empty")
    if _CONTROL_CHARACTER.search(text):
        raise BadRequest(f"Invalid {what}: contains a control character")
    return text


def _may_exist(levels: Sequence[str]) -> bool:
    """Nothing has an empty name, one with a control character or an overlong one; such text does not go to the database either."""
    return all(0 < len(level) <= NAME_CODE_POINTS_MAX and not _CONTROL_CHARACTER.search(level) for level in levels)


def parse_existing_namespace(segment: str) -> NamespaceIdentifier:
    """The namespace that a request is about; NoSuchNamespace where the text is none that one could have.

    Merely odd names (not NFC) pass: nothing of that name exists, and a question for what does not exist is answered 404.
    Engines probe: Spark asks for `db.table` as a namespace when it reads `db.table.snapshots`.
    """
    levels = decode_segment(segment, "namespace").split(LEVEL_SEPARATOR)
    if not _may_exist(levels):
        raise NoSuchNamespace(f"Namespace does not exist: {_shown('.'.join(levels))}")
    return NamespaceIdentifier(tuple(levels))


def parse_existing_tabular(namespace: str, name: str, kind: Literal["table", "view"]) -> TabularIdentifier:
    """The table or view that a request is about, as lenient as parse_existing_namespace; NoSuchTable or NoSuchView."""
    return existing_tabular(decode_segment(namespace, "namespace").split(LEVEL_SEPARATOR), decode_segment(name, f"{kind} name"), kind)


def existing_tabular(levels: Sequence[str], name: str, kind: Literal["table", "view"]) -> TabularIdentifier:
    """The same from texts that are decoded already."""
    if not _may_exist([*levels, name]):
        refused = NoSuchTable if kind == "table" else NoSuchView
        raise refused(f"{kind.capitalize()} does not exist: {_shown('.'.join([*levels, name]))}")
    return TabularIdentifier(NamespaceIdentifier(tuple(levels)), name)


def _shown(name: str) -> str:
    """A name for a message, its control characters escaped; no more of it than a message holds."""
    return _CONTROL_CHARACTER.sub(lambda found: f"\\u{ord(found[0]):04X}", name[:MESSAGE_LENGTH_MAX])


def parse_queried_tabular(namespace: str, name: str, what: str) -> TabularIdentifier:
    """The table or view of a question whose names are parameters, decoded already; as lenient as parse_existing_namespace."""
    levels = tuple(_refuse_malformed(level, "namespace level") for level in namespace.split(LEVEL_SEPARATOR))
    return TabularIdentifier(NamespaceIdentifier(levels), _refuse_malformed(name, what))


def parse_new_namespace(segment: str) -> NamespaceIdentifier:
    """The namespace that something is created in together with its name, by the full rules of domain/identifiers.py."""
    return NamespaceIdentifier.parse(decode_segment(segment, "namespace").split(LEVEL_SEPARATOR))


def parse_new_tabular(namespace: str, name: str, what: str) -> TabularIdentifier:
    """The table that a commit with `assert-create` creates, by the full rules of domain/identifiers.py."""
    return TabularIdentifier.parse(parse_new_namespace(namespace), decode_segment(name, what), what)


def parse_parent(parent: str) -> list[NamespaceIdentifier]:
    """What a `parent` parameter may mean, the likelier first.

    Java joins plain levels; PyIceberg quotes each level before the whole is quoted again, and Trino once sent `%1F` quoted twice.
    Text that still holds escapes is therefore a name in its own right first, and only if that does not exist, an encoded one.
    """
    readings = [parent]
    if "%" in parent:
        with contextlib.suppress(UnicodeError):
            readings.append(unquote_to_bytes(parent).decode())
    return [
        NamespaceIdentifier(tuple(_refuse_malformed(level, "parent") for level in reading.split(LEVEL_SEPARATOR)))
        for reading in dict.fromkeys(readings)
    ]


def warehouse_reference(text: str) -> str:
    """`<id or name>[@<position or time>]`, with the `+` of a time zone put back where form decoding made it a space."""
    name, at, moment = text.partition("@")
    if at and len(moment) > _TIME_WITHOUT_ZONE_LENGTH and moment[-6] == " " and moment[-3] == ":":
        moment = f"{moment[:-6]}+{moment[-5:]}"
    return _refuse_malformed(f"{name}{at}{moment}", "warehouse")


def parse_boolean(text: str, what: str) -> bool:
    """`true` or `false` in any case: PyIceberg sends Python's spelling, `purgeRequested=False`."""
    lowered = text.lower()
    if lowered not in ("true", "false"):
        raise BadRequest(f"Invalid parameter '{what}': must be true or false")
    return lowered == "true"

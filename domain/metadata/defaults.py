"""Default values of columns in the JSON single-value form (table spec, appendix D), checked and made canonical."""

import math
import re
import struct
from calendar import monthrange
from decimal import Decimal
from typing import Any

from ..errors import BadRequest, IllegalArgument
from .fields import is_int, is_long, show
from .types import TypeJson, describe_type, type_id

DECIMAL_EXPONENT_MAX = 1_000
"""With a larger exponent, a few characters would become megabytes of digits."""
DECIMAL_CHARACTERS_MAX = 1_100

_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,9})?", re.ASCII)
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_HEX = re.compile(r"([0-9A-F]{2})*")
_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)", re.ASCII)
_TIME = re.compile(r"(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{0,9}))?)?", re.ASCII)
_UTC_OFFSET = re.compile(r"(Z|\+00:00)$", re.IGNORECASE)
_MICROSECOND_DIGITS, _NANOSECOND_DIGITS = 6, 9
_NANOSECOND_YEARS = range(1678, 2262)
"""Years completely within the range of 64-bit nanoseconds from 1970."""


def parse_default(type_: TypeJson, value: object) -> Any:
    """The canonical form of a column's default. Raises IllegalArgument or BadRequest if it is not a value of the type."""
    kind = type_id(type_)
    if isinstance(type_, dict):
        raise IllegalArgument(f"Invalid default value for {describe_type(type_)}: {show(value)} (must be null)")
    if kind in ("variant", "unknown", "geometry", "geography"):
        raise BadRequest(f"Type: {type_} is not supported")
    canonical = _READERS[kind](type_, value)
    if canonical is None:
        raise BadRequest(f"Cannot parse default as a {type_} value: {show(value)}")
    return canonical


def _boolean(_: str, value: object) -> object:
    return value if isinstance(value, bool) else None


def _integer(_: str, value: object) -> object:
    return value if is_int(value) else None


def _long(_: str, value: object) -> object:
    return value if is_long(value) else None


def _double(_: str, value: object) -> object:
    return value if isinstance(value, float) and math.isfinite(value) else None


def _float(_: str, value: object) -> object:
    """The shortest decimal with the same 32-bit value."""
    if not isinstance(value, float):
        return None
    try:
        single: float = struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return None
    if not math.isfinite(single):
        return None
    for digits in range(1, 10):
        shorter = float(f"{single:.{digits}g}")
        if struct.unpack("f", struct.pack("f", shorter))[0] == single:
            return shorter
    return single


def _string(_: str, value: object) -> object:
    return value if isinstance(value, str) else None


def _decimal(type_: str, value: object) -> object:
    if not isinstance(value, str) or len(value) > DECIMAL_CHARACTERS_MAX or not _DECIMAL.fullmatch(value):
        return None
    number = Decimal(value)
    exponent = number.as_tuple().exponent
    scale = int(type_.rpartition(",")[2].rstrip(")"))
    if -scale != exponent or scale > DECIMAL_EXPONENT_MAX:
        raise BadRequest(f"Cannot parse default as a {type_} value: {show(value)}, the scale doesn't match")
    return f"{number.copy_abs() if number == 0 else number:f}"


def _uuid(_: str, value: object) -> object:
    return value.lower() if isinstance(value, str) and _UUID.fullmatch(value) else None


def _fixed(type_: str, value: object) -> object:
    length = int(type_[len("fixed[") : -1])
    if isinstance(value, str) and len(value) != length * 2:
        raise BadRequest(f"Cannot parse default {type_} value: {show(value)}, incorrect length: {len(value)}")
    return _binary(type_, value)


def _binary(_: str, value: object) -> object:
    return value.upper() if isinstance(value, str) and _HEX.fullmatch(value.upper()) else None


def _date(_: str, value: object) -> object:
    match = _DATE.fullmatch(value) if isinstance(value, str) else None
    if not match:
        return None
    year, month, day = (int(part) for part in match.groups())
    # Year 0 is a leap year like 2000. The calendar module starts with year 1.
    return value if 1 <= month <= 12 and 1 <= day <= monthrange(year or 2000, month)[1] else None


def _time(_: str, value: object) -> object:
    return _time_of_day(value, _MICROSECOND_DIGITS)


def _time_of_day(value: object, fraction_digits: int) -> str | None:
    match = _TIME.fullmatch(value) if isinstance(value, str) else None
    if not match:
        return None
    hour, minute, second, fraction = match.groups(default="0")
    if int(hour) > 23 or int(minute) > 59 or int(second) > 59:
        return None
    fraction = fraction[:fraction_digits].rstrip("0")
    return f"{hour}:{minute}:{int(second):02d}" + (f".{fraction}" if fraction else "")


def _timestamp(type_: str, value: object) -> object:
    if not isinstance(value, str):
        return None
    text, suffix = value, ""
    if type_.startswith("timestamptz"):
        text, suffix = _UTC_OFFSET.sub("", value), "+00:00"
        if text == value:
            raise BadRequest(f"Cannot parse default as a {type_} value: {show(value)}, offset must be +00:00")
    nanoseconds = type_.endswith("_ns")
    date, _, time = text.upper().partition("T")
    time_text = _time_of_day(time, _NANOSECOND_DIGITS if nanoseconds else _MICROSECOND_DIGITS)
    if _date(type_, date) is None or time_text is None or (nanoseconds and int(date[:4]) not in _NANOSECOND_YEARS):
        return None
    return f"{date}T{time_text}{suffix}"


_READERS = {
    "boolean": _boolean,
    "int": _integer,
    "long": _long,
    "float": _float,
    "double": _double,
    "decimal": _decimal,
    "string": _string,
    "uuid": _uuid,
    "fixed": _fixed,
    "binary": _binary,
    "date": _date,
    "time": _time,
    "timestamp": _timestamp,
    "timestamptz": _timestamp,
    "timestamp_ns": _timestamp,
    "timestamptz_ns": _timestamp,
}

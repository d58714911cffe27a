"""Durations at the command line: a whole number with d, h, m or s."""

import re

from .exit_codes import CommandFailed, ExitCode

_UNITS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}


def seconds_argument(text: str, option: str) -> int:
    """The seconds of an option that takes a duration: a whole number with d, h, m or s."""
    match = re.fullmatch(r"(\d{1,10})([dhms])", text)
    if match is None:
        raise CommandFailed(ExitCode.USAGE, f"{option} must be a whole number with d, h, m or s, such as 7d: {text}")
    return int(match[1]) * _UNITS[match[2]]


def duration_text(seconds: int) -> str:
    """In the largest unit in which it is a whole number: 7d."""
    unit = next(unit for unit, size in _UNITS.items() if seconds % size == 0)
    return f"{seconds // _UNITS[unit]}{unit}"

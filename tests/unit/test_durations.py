"""Durations at the command line."""

import pytest

from icecore.durations import duration_text, seconds_argument
from icecore.exit_codes import CommandFailed


@pytest.mark.parametrize(("text", "seconds"), [("7d", 604_800), ("36h", 129_600), ("90m", 5_400), ("1s", 1), ("0d", 0)])
def test_a_duration_is_read(text: str, seconds: int) -> None:
    assert seconds == seconds_argument(text, "--soft")


@pytest.mark.parametrize("text", ["", "7", "d", "7w", "7D", "-7d", "7.5d", "7 d", "7d ", "99999999999d"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(CommandFailed, match="--soft must be a whole number with d, h, m or s"):
        seconds_argument(text, "--soft")


@pytest.mark.parametrize(("seconds", "text"), [(604_800, "7d"), (90_000, "25h"), (5_400, "90m"), (61, "61s")])
def test_a_duration_is_shown_in_whole_units(seconds: int, text: str) -> None:
    assert text == duration_text(seconds)
    assert seconds == seconds_argument(text, "--soft")

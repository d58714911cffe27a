"""The report of `verify`: differences are counted and the first are shown, and each event is compared with the previous one."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from icecore.domain.recorded import GENESIS_HASH, RecordedEvent, chain_hash
from icecore.projections.verify_chain import check_link
from icecore.projections.verify_report import DIFFERENCES_MAX, VerifyReport
from tests.unit.test_recorded import EVENT


def test_differences_are_counted_and_the_first_are_shown() -> None:
    """The others are only counted."""
    report = VerifyReport()
    assert report.ok
    for number in range(DIFFERENCES_MAX):
        report.add("t", f"key {number}", None, 1, 2)
        assert str(report).startswith("1 difference: " if number == 0 else f"{number + 1} differences: ")
    assert not report.ok
    assert (1 + DIFFERENCES_MAX, False) == (len(str(report).splitlines()), "more" in str(report))
    for number in range(7):
        report.add("t", f"key {DIFFERENCES_MAX + number}", None, 1, 2)
    assert DIFFERENCES_MAX == len(report.differences)
    assert str(report).startswith(f"{DIFFERENCES_MAX + 7} differences: ")
    assert str(report).endswith("\n… and 7 more")


def linked(event: RecordedEvent, previous: RecordedEvent | None) -> RecordedEvent:
    return replace(event, hash=chain_hash(GENESIS_HASH if previous is None else previous.hash, event))


FIRST = linked(replace(EVENT, position=1), None)


@pytest.mark.parametrize(
    ("column", "changes"),
    [
        (None, {}),
        ("notification_id", {"position": 3}),
        ("notification_id", {"position": 1}),
        ("recorded_at", {"recorded_at": FIRST.recorded_at - timedelta(microseconds=1)}),
        ("hash", {"hash": bytes(32)}),
        ("hash", {"hash": b"\xff" * 32}),
    ],
)
def test_an_event_follows_the_one_before(column: str | None, changes: dict[str, Any]) -> None:
    """By position, time and hash: with smaller and greater values than expected."""
    given: dict[str, Any] = {"position": 2, **changes}
    event = replace(EVENT, **given)
    report = VerifyReport()
    check_link(FIRST, event if "hash" in given else linked(event, FIRST), report)
    assert ([] if column is None else [column]) == [difference.column for difference in report.differences]

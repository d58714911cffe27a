"""The report of `verify`: differences are counted and the first are shown, and each event is compared with the previous one."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from icecore.domain.recorded import GENESIS_HASH, RecordedEvent, chain_hash
from icecore.projections.verify_chain import check_link
from icecore.projections.verify_report import DIFFERENCES_MAX, Difference, VerifyReport
from tests.unit.test_recorded import EVENT


def test_differences_are_counted_and_the_first_are_shown() -> None:
    """The others are only counted."""
    report = VerifyReport()
    assert report.ok
    for number in range(DIFFERENCES_MAX):
        report.add("t", f"key {number}", None, 1, 2)
        assert str(report).startswith("1 difference: " if number == 0 else f"{number + 1} differences: ")
    assert not report.ok
    assert (1 + DIFFERENCES_MAX + 1, False) == (len(str(report).splitlines()), "more" in str(report))
    for number in range(7):
        report.add("t", f"key {DIFFERENCES_MAX + number}", None, 1, 2)
    assert DIFFERENCES_MAX == len(report.differences)
    assert str(report).startswith(f"{DIFFERENCES_MAX + 7} differences: ")
    assert "\n… and 7 more\nadvice: " in str(report)


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (None, None),
        (True, True),
        (7, 7),
        ("a", "a"),
        (UUID(int=7), str(UUID(int=7))),
        (datetime(2026, 1, 31, 12, tzinfo=UTC), "2026-01-31T12:00:00Z"),
        (bytes(2), "0000"),
        (b"x" * 33, "x" * 33),
        (timedelta(seconds=1), "0:00:01"),
        ((UUID(int=7), None, "a"), [str(UUID(int=7)), None, "a"]),
        ({"a": {1}}, {"a": [1]}),
        ({1: 2**70}, {"1": str(2**70)}),
        ("x" * 201, "x" * 200 + "… (201 characters)"),
        (("x" * 300,), '["' + "x" * 198 + "… (304 characters)"),
    ],
)
def test_values_are_plain_json(value: Any, plain: Any) -> None:
    """No text of Python. Long values are shortened, and a missing row is null."""
    of_column = Difference("t", "k", "c", value, "y").to_json()
    assert {"table": "t", "key": "k", "column": "c", "expected": plain, "found": "y"} == of_column == json.loads(json.dumps(of_column))
    assert Difference("t", "k", None, None, value).to_json()["expected"] is None


@pytest.mark.parametrize(
    ("table", "advice"),
    [
        ("names", "run `icecore rebuild`,"),
        ("part_tombstones", "run `icecore rebuild`,"),
        ("warehouse_statistics", "run `icecore rebuild --statistics`"),
        ("statistics_tracking", "run `icecore rebuild --statistics`"),
        ("search_terms", "run `icecore rebuild --search`"),
        ("events", "no command repairs it: restore the database from a backup"),
        ("claims", "no command computes them again: restore the database from a backup"),
        ("pg_proc", "undo the changes"),
    ],
)
def test_each_kind_of_difference_has_its_advice(table: str, advice: str) -> None:
    """Once, also beyond the differences that are shown, and none for a report without differences."""
    assert [] == VerifyReport().advice
    report, part = VerifyReport(), VerifyReport()
    part.add(table, "k", "c", 1, 2)
    for _ in range(DIFFERENCES_MAX + 1):
        report.add("names", "k", "c", 1, 2)
    report.include(part)
    assert any(advice in line for line in report.advice)
    assert (1 if advice.startswith("run `icecore rebuild`,") else 2) == len(report.advice)
    assert report.advice == report.to_json()["advice"]
    assert str(report).endswith("\n".join(f"advice: {line}" for line in report.advice))


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

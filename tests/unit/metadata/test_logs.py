"""The logs of a table: order, ends, and removed entries."""

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icecore.domain.errors import IllegalArgument, ValidationFailed
from icecore.domain.metadata.fields import Json
from icecore.domain.metadata.logs import (
    CLOCK_SKEW_MS_MAX,
    append_metadata_log,
    check_metadata_log,
    check_snapshot_log,
    correct_snapshot_log,
    may_delete_metadata_file,
    removed_metadata_files,
)
from tests.unit.metadata.tables import NOW_MS

Check = Callable[..., None]

CHECKS = pytest.mark.parametrize(
    ("check", "unsorted", "late"),
    [
        (check_snapshot_log, "snapshot log entries", "before last snapshot log entry at"),
        (check_metadata_log, "previous metadata log entries", "before the latest metadata log entry timestamp"),
    ],
    ids=["snapshots", "metadata files"],
)


def log(*times_ms: int) -> list[Json]:
    return [{"timestamp-ms": NOW_MS + time_ms} for time_ms in times_ms]


@CHECKS
def test_a_log_may_end_a_minute_after_the_last_update_and_no_more(check: Check, unsorted: str, late: str) -> None:
    """Clocks differ. The limit itself is permitted. An empty log has no end."""
    check([], NOW_MS)
    check(log(CLOCK_SKEW_MS_MAX), NOW_MS)
    check(log(-10 * CLOCK_SKEW_MS_MAX), NOW_MS)
    with pytest.raises(IllegalArgument) as refusal:
        check(log(0, 1, CLOCK_SKEW_MS_MAX + 1), NOW_MS)
    assert f"Invalid update timestamp {NOW_MS}: {late} {NOW_MS + CLOCK_SKEW_MS_MAX + 1}" == refusal.value.message


@CHECKS
@pytest.mark.parametrize("times", [(1, 0, 2), (0, 1, 0), (2, 0)])
def test_entries_may_lie_a_minute_before_their_predecessor_and_no_more(
    check: Check, unsorted: str, late: str, times: Sequence[int]
) -> None:
    """At any place in the log, including the first and the last entries."""
    highest = max(times)
    check(log(*(time_ms * CLOCK_SKEW_MS_MAX // highest for time_ms in times)), NOW_MS)
    with pytest.raises(IllegalArgument) as refusal:
        check(log(*(time_ms * (CLOCK_SKEW_MS_MAX + highest) for time_ms in times)), NOW_MS + 10 * CLOCK_SKEW_MS_MAX)
    assert f"[BUG] Expected sorted {unsorted}." == refusal.value.message


@CHECKS
def test_entries_before_the_start_are_known_to_be_right(check: Check, unsorted: str, late: str) -> None:
    """The step to the first new entry is checked, earlier ones are not."""
    entries, now_ms = log(5 * CLOCK_SKEW_MS_MAX, 0, 2 * CLOCK_SKEW_MS_MAX, 0), NOW_MS + CLOCK_SKEW_MS_MAX
    check(entries[:3], now_ms, start=2)
    for start in (0, 1, 3):
        with pytest.raises(IllegalArgument, match="Expected sorted"):
            check(entries if start == 3 else entries[:3], now_ms, start=start)
    check(entries, now_ms, start=4)


@pytest.mark.parametrize(
    ("kept", "properties"),
    [
        (["1", "2", "3", "new"], {}),
        (["1", "2", "3", "new"], {"write.metadata.previous-versions-max": "4"}),
        (["2", "3", "new"], {"write.metadata.previous-versions-max": "3"}),
        (["3", "new"], {"write.metadata.previous-versions-max": "2"}),
        (["new"], {"write.metadata.previous-versions-max": "1"}),
        (["new"], {"write.metadata.previous-versions-max": "0"}),
        (["new"], {"write.metadata.previous-versions-max": "-7"}),
    ],
)
def test_the_oldest_metadata_files_leave_the_log(kept: list[str], properties: dict[str, str]) -> None:
    """As many entries as the property says, including the new one, and at least one."""
    before = [{"timestamp-ms": n, "metadata-file": str(n)} for n in (1, 2, 3)]
    after = append_metadata_log(before, "new", 4, properties)
    assert kept == [entry["metadata-file"] for entry in after]
    assert 4 == after[-1]["timestamp-ms"]
    assert 3 == len(before)


def test_a_hundred_metadata_files_are_kept_where_nothing_is_said() -> None:
    """Java's default."""
    before = [{"timestamp-ms": n, "metadata-file": str(n)} for n in range(200)]
    assert [*(str(n) for n in range(101, 200)), "new"] == [entry["metadata-file"] for entry in append_metadata_log(before, "new", 4, {})]


@pytest.mark.parametrize(
    ("expected", "there", "intermediate", "has_removed"),
    [
        ([1, 2, 3], {1, 2, 3}, set(), False),
        ([1, 2, 3], {1, 2, 3}, set(), True),
        ([1, 3], {1, 2, 3}, {2}, True),
        ([3], {1, 3}, set(), True),
        ([2, 3], {2, 3}, set(), True),
        ([1, 3], {1, 3}, set(), False),
    ],
    ids=["all there", "nothing of it removed", "current within the commit", "removed between", "removed before", "never known"],
)
def test_the_snapshot_log_has_no_gap(expected: list[int], there: set[int], intermediate: set[int], has_removed: bool) -> None:
    """Entries before a removed snapshot are removed too. Unknown snapshots leave no gap."""
    entries = [{"snapshot-id": number} for number in (1, 2, 3)]
    assert expected == [entry["snapshot-id"] for entry in correct_snapshot_log(entries, there, 3, intermediate, has_removed)]


def test_the_snapshot_log_ends_with_the_current_snapshot() -> None:
    """If there is one and the table has it."""
    entries = [{"snapshot-id": 1}]
    for log_, current in ((entries, 2), (entries, 0), ([], 1)):
        with pytest.raises(ValidationFailed, match="latest entry is not the current snapshot"):
            correct_snapshot_log(log_, {0, 1, 2}, current, set(), has_removed=False)
    for current_id in (None, 9):
        assert entries == correct_snapshot_log(entries, {1, 2}, current_id, set(), has_removed=False)


DELETES = "write.metadata.delete-after-commit.enabled"


def document(*files: str, **properties: str) -> Json:
    """The members that the rules about files use."""
    return {"properties": properties, "metadata-log": [{"timestamp-ms": NOW_MS, "metadata-file": file} for file in files]}


@pytest.mark.parametrize(("value", "removed"), [(None, []), ("false", []), ("", []), ("yes", []), ("true", ["a"]), ("TRUE", ["a"])])
def test_files_that_leave_the_log_are_deleted_where_the_table_asks_for_it(value: str | None, removed: list[str]) -> None:
    """Parsed as in Java. The properties after the commit count."""
    properties = {} if value is None else {DELETES: value}
    assert removed == removed_metadata_files(document("a", "b"), document("b", "c", **properties))
    assert [] == removed_metadata_files(document("a", "b", **{DELETES: "true"}), document("b", "c"))


def test_a_file_that_stays_in_the_log_stays() -> None:
    """Also if it is at another place in the log."""
    after = document("c", "a", **{DELETES: "true"})
    assert [] == removed_metadata_files(document("a", "c"), after)
    assert ["b", "d"] == removed_metadata_files(document("a", "b", "d"), after)


@given(max_entries=st.integers(-1, 5), commits=st.integers(1, 12))
def test_every_file_is_in_the_log_or_was_removed_once(max_entries: int, commits: int) -> None:
    """For every commit and every value of write.metadata.previous-versions-max."""
    properties = {DELETES: "true", "write.metadata.previous-versions-max": str(max_entries)}
    before, removed = document(**properties), []
    for number in range(commits):
        entries = append_metadata_log(before["metadata-log"], str(number), NOW_MS + number, properties)
        after = {"properties": properties, "metadata-log": entries}
        removed += removed_metadata_files(before, after)
        before = after
    kept = [entry["metadata-file"] for entry in before["metadata-log"]]
    assert [str(number) for number in range(commits)] == [*removed, *kept]
    assert len(kept) <= max(1, max_entries)


@pytest.mark.parametrize("current", [False, True])
@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("live", [False, True])
def test_a_file_is_deleted_while_its_table_lives_and_does_not_name_it(live: bool, named: bool, current: bool) -> None:
    """After a store was asked to delete it, only the newest file is kept, because others may disappear at any time."""
    named = named or current
    assert (live and not named) == may_delete_metadata_file(begun=False, current=current, named=named, live=live)
    assert (not current) == may_delete_metadata_file(begun=True, current=current, named=named, live=live)

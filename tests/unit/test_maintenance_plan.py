"""Which procedures of maintenance are planned, in which order, and what waits."""

from dataclasses import astuple, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from icecore.domain.maintenance import PROCEDURES
from icecore.pipeline.maintenance_plan import (
    AFTER_REWRITE,
    BELOW_ESTIMATE_PAUSE,
    FAILED_PAUSE,
    FAILED_PAUSE_MAX,
    MANIFESTS_MIN,
    SNAPSHOTS_MIN,
    Candidate,
    PastRun,
    TableFacts,
    plan_maintenance,
)
from icecore.pipeline.maintenance_policy import InvalidPolicyError, MaintenancePolicy, parse_policy

NOW = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
MIB = 1024**2
GIB = 1024 * MIB
PREFIX = "icecore.maintenance."


def facts(number: int = 1, **given: Any) -> TableFacts:
    return TableFacts(UUID(int=number), UUID(int=99), f"lake.sales.t{number}", given.pop("properties", {}), **given)


def small_files(number: int = 1, count: int = 100, size: int = MIB, **given: Any) -> TableFacts:
    return facts(number, data_files=count, new_files=count, data_bytes=count * size, new_bytes=count * size, **given)


def planned(*tables: TableFacts, **given: Any) -> list[Candidate]:
    return list(plan_maintenance(tables, NOW, **{"rewrite_bytes_max": 100 * GIB, **given}).candidates)


def procedures(*tables: TableFacts, **given: Any) -> list[str]:
    return [each.procedure for each in planned(*tables, **given)]


def past(procedure: str = "rewrite_data_files", days_ago: float = 0.5, outcome: str = "success", **counts: int) -> PastRun:
    """expected, measured -- data files that were to be removed, and were."""
    estimate, measured = ({"data-files-removed": counts.get(name, 100)} for name in ("expected", "measured"))
    return PastRun(procedure, NOW - timedelta(days=days_ago), outcome, estimate, measured)


def test_many_small_files_are_rewritten() -> None:
    """The estimate is what is left at the target size; the budget is compared with what would be read."""
    (each,) = planned(small_files(count=1_000))
    assert ("rewrite_data_files", {"data-files-removed": 998, "bytes-rewritten": 1_000 * MIB}) == (each.procedure, each.estimate)
    assert "1000 data files since the last rewrite, 1.0 MiB each on average, for a target of 512.0 MiB" == each.reason
    assert ["rewrite_data_files"] == procedures(small_files(count=5))


@pytest.mark.parametrize(
    "table",
    [
        small_files(count=4),
        small_files(count=100, size=384 * MIB),
        replace(small_files(), new_files=4, new_bytes=4),
        replace(small_files(), data_files=3),
        small_files(properties={f"{PREFIX}min-input-files": "101"}),
        small_files(properties={"write.target-file-size-bytes": str(MIB)}),
        small_files(properties={f"{PREFIX}enabled": "false"}),
        small_files(properties={f"{PREFIX}procedures": "rewrite_manifests, expire_snapshots"}),
        facts(),
    ],
    ids=["few", "large", "few new", "few left", "few by policy", "large by policy", "off", "other procedures", "new table"],
)
def test_what_is_not_worth_it_is_left(table: TableFacts) -> None:
    assert [] == procedures(table)


def test_each_procedure_has_its_own_threshold() -> None:
    assert ["rewrite_manifests"] == procedures(facts(new_manifests=MANIFESTS_MIN))
    assert [] == procedures(facts(new_manifests=MANIFESTS_MIN - 1))
    assert ["expire_snapshots"] == procedures(facts(snapshots=20, old_snapshots=SNAPSHOTS_MIN))
    assert [] == procedures(facts(snapshots=20, old_snapshots=SNAPSHOTS_MIN - 1))
    assert ["rewrite_position_delete_files"] == procedures(facts(position_delete_files=5))
    assert [] == procedures(facts(position_delete_files=4))
    assert [] == procedures(facts(position_delete_files=6, data_files=6)), "one for each data file stays"
    (each,) = planned(facts(position_delete_files=20, data_files=6))
    assert {"delete-files-removed": 14} == each.estimate
    (each,) = planned(facts(position_delete_files=6, data_files=6, properties={"write.delete.granularity": "partition"}))
    assert {"delete-files-removed": 5} == each.estimate
    (deletes,) = planned(facts(position_delete_files=9))
    assert deletes.wait_reason is None
    rewrite, waiting = sorted(planned(small_files(position_delete_files=200)), key=lambda each: each.procedure)
    assert ("rewrite_data_files", None, AFTER_REWRITE) == (rewrite.procedure, rewrite.wait_reason, waiting.wait_reason)
    assert {"delete-files-removed": 8} == deletes.estimate
    assert [] == procedures(facts(snapshots=SNAPSHOTS_MIN, old_snapshots=SNAPSHOTS_MIN)), "the current snapshot stays"
    keep = {"history.expire.min-snapshots-to-keep": "10"}
    assert [] == procedures(facts(snapshots=14, old_snapshots=13, properties=keep))
    (kept,) = planned(facts(snapshots=15, old_snapshots=13, properties=keep))
    assert {"snapshots-removed": 5} == kept.estimate
    (expiry,) = planned(facts(snapshots=8, old_snapshots=7, properties={"history.expire.max-snapshot-age-ms": "5400000"}))
    assert ("7 snapshots older than 1.5 hours", {"snapshots-removed": 7}) == (expiry.reason, expiry.estimate)


def test_orphan_files_are_looked_for_at_intervals_and_only_after_commits() -> None:
    """Files younger than the policy's age are not orphans, so a table that is younger has none."""
    old = facts(first_commit_at=NOW - timedelta(days=60), last_commit_at=NOW - timedelta(days=1))
    assert ["remove_orphan_files"] == procedures(old)
    assert [] == procedures(replace(old, first_commit_at=NOW - timedelta(days=2)))
    assert ["remove_orphan_files"] == procedures(
        replace(old, first_commit_at=NOW - timedelta(days=2), properties={f"{PREFIX}orphan-files-min-age-days": "1"})
    )
    assert [] == procedures(replace(old, past=[past("remove_orphan_files", 29)]))
    assert ["remove_orphan_files"] == procedures(replace(old, past=[past("remove_orphan_files", 31)]))
    assert [] == procedures(replace(old, past=[past("remove_orphan_files", 31)], last_commit_at=NOW - timedelta(days=32)))
    assert [] == procedures(replace(old, properties={"gc.enabled": "false"}))
    for other in (past("expire_snapshots", 1), past("remove_orphan_files", 31, outcome="failed")):
        assert ["remove_orphan_files"] == procedures(replace(old, past=[other])), "no search that succeeded"
    assert [] == procedures(replace(old, first_commit_at=None)) == procedures(replace(old, last_commit_at=None))


def test_files_that_are_gone_are_not_rewritten() -> None:
    """More was added since the last rewrite than is left: other writers have removed files."""
    (each,) = planned(facts(data_files=10, new_files=99, data_bytes=10 * MIB, new_bytes=99 * MIB))
    assert {"data-files-removed": 9, "bytes-rewritten": 10 * MIB} == each.estimate


def test_benefits_have_weights() -> None:
    """A delete file counts as two data files, ten snapshots as one."""

    def score(**estimate: int) -> float:
        (each,) = planned(facts(new_manifests=MANIFESTS_MIN))
        return replace(each, estimate={name.replace("_", "-"): count for name, count in estimate.items()}).score

    assert score(data_files_removed=20) == score(delete_files_removed=10) == score(snapshots_removed=200) == score(files_deleted=200)
    assert score(data_files_removed=20, manifests_removed=10) == score(data_files_removed=30)
    assert score(data_files_removed=20) == 21 * score(data_files_removed=20, bytes_rewritten=GIB)


def test_the_best_benefit_for_its_cost_comes_first() -> None:
    """Tables by their best procedure; the procedures of one table in the order in which they help each other."""
    cheap = small_files(1, snapshots=601, old_snapshots=600)
    costly = small_files(2, count=100, size=300 * MIB, new_manifests=60)
    plan = plan_maintenance([costly, cheap], NOW, rewrite_bytes_max=100 * GIB)
    assert [
        ("lake.sales.t1", "expire_snapshots"),
        ("lake.sales.t2", "rewrite_manifests"),
        ("lake.sales.t1", "rewrite_data_files"),
        ("lake.sales.t2", "rewrite_data_files"),
    ] == [(each.name, each.procedure) for each in plan.candidates]
    assert [
        ("lake.sales.t1", "rewrite_data_files"),
        ("lake.sales.t1", "expire_snapshots"),
        ("lake.sales.t2", "rewrite_data_files"),
        ("lake.sales.t2", "rewrite_manifests"),
    ] == [(each.name, each.procedure) for each in plan.runs]


def test_the_budget_goes_to_the_best_and_to_what_still_fits() -> None:
    tables = [small_files(1, 1_000), small_files(2, 900), small_files(3, 50)]
    waits = {each.name[-1]: each.wait_reason for each in planned(*tables, rewrite_bytes_max=1_100 * MIB)}
    assert {"1": None, "2": "would rewrite 900.0 MiB; 100.0 MiB of the budget remain", "3": None} == waits
    plan = plan_maintenance(tables, NOW, rewrite_bytes_max=0)
    assert [] == plan.runs


def test_a_budget_is_used_up_to_its_last_byte() -> None:
    """What rewrites nothing needs none, and what waits takes none."""
    assert [None] == [each.wait_reason for each in planned(small_files(count=10), rewrite_bytes_max=10 * MIB)]
    assert [None] == [each.wait_reason for each in planned(facts(new_manifests=MANIFESTS_MIN), rewrite_bytes_max=0)]
    tables = [small_files(1, 1_000, past=[past(outcome="failed")]), small_files(2, 900)]
    assert ["lake.sales.t2"] == [each.name for each in plan_maintenance(tables, NOW, rewrite_bytes_max=1_000 * MIB).runs]


def test_busy_hours_are_avoided() -> None:
    """More commits at this hour of the day than on average; 24 commits at least, on a table of three days."""
    old = NOW - timedelta(days=9)
    busy = small_files(commits_by_hour={12: 20, 13: 9, 14: 1}, first_commit_at=old, last_commit_at=old)
    busy = replace(busy, properties={f"{PREFIX}procedures": "rewrite_data_files"})
    assert ["until 14:00Z: the table is busy at this hour"] == [each.wait_reason for each in planned(busy)]
    assert [None] == [each.wait_reason for each in planned(busy, any_time=True)]
    for quiet in (
        replace(busy, commits_by_hour={12: 23}),
        replace(busy, commits_by_hour={12: 1, 13: 30}),
        replace(busy, commits_by_hour={12: 2, 13: 46}),
        replace(busy, commits_by_hour=dict.fromkeys(range(24), 5)),
        replace(busy, first_commit_at=NOW - timedelta(days=2)),
    ):
        assert [None] == [each.wait_reason for each in planned(quiet)]
    for enough in (replace(busy, commits_by_hour={12: 24}), replace(busy, first_commit_at=NOW - timedelta(days=3))):
        assert [None] != [each.wait_reason for each in planned(enough)]


def test_a_quiet_hour_is_found_after_midnight() -> None:
    busy = small_files(commits_by_hour={23: 20, 0: 9, 1: 1}, first_commit_at=NOW - timedelta(days=9))
    (each,) = plan_maintenance([busy], NOW.replace(hour=23), rewrite_bytes_max=GIB).candidates
    assert "until 01:00Z: the table is busy at this hour" == each.wait_reason


def test_a_poor_or_failed_run_is_not_repeated_soon() -> None:
    """After the pause it is planned again. Other procedures and skipped runs do not count."""
    poor = past(days_ago=6.9, measured=49)
    assert poor.below_estimate
    assert not past(measured=50).below_estimate

    def waits(*runs: PastRun) -> str | None:
        (each,) = planned(small_files(past=runs))
        return each.wait_reason

    assert "until 2026-03-01 14:54Z: the last run achieved less than 50% of its estimate" == waits(poor)
    assert waits(replace(poor, finished_at=NOW - BELOW_ESTIMATE_PAUSE)) is None
    assert waits(past()) is None
    assert waits(past("rewrite_manifests", outcome="failed")) is None
    assert "until 2026-03-02 00:30Z: the last run conflicted with other commits" == waits(past(outcome="conflict"), past())
    assert waits(past(outcome="unavailable")) is None, "it says nothing about the table"
    assert "until 2026-03-02 00:30Z: the last run failed" == waits(past(outcome="failed"), past())
    assert "until 2026-03-02 00:30Z: the last run has no outcome yet" == waits(past(outcome="unfinished"), past())
    failed = [past(outcome="failed", days_ago=1.5), past(outcome="conflict", days_ago=3), past(days_ago=4, measured=0)]
    assert "until 2026-03-02 00:30Z: 2 runs in a row failed" == waits(*failed)
    assert waits(replace(failed[0], finished_at=NOW - 2 * FAILED_PAUSE), *failed[1:]) is None
    many = [past(outcome="failed", days_ago=29)] * 9
    assert FAILED_PAUSE_MAX > timedelta(days=29)
    assert waits(*many) is not None
    assert waits(*(replace(each, finished_at=NOW - FAILED_PAUSE_MAX) for each in many)) is None


def test_many_failures_do_not_break_the_plan() -> None:
    """More than a doubled pause of days can be counted in, as when runs are repeated before the log is landed."""
    (each,) = planned(small_files(past=[past(outcome="failed", days_ago=29)] * 100))
    assert "until 2026-03-02 12:30Z: 100 runs in a row failed" == each.wait_reason


def test_policies_of_namespaces_count_unless_the_table_has_its_own() -> None:
    """They stay with the candidate, because the policy is looked at again before the run."""
    off = {f"{PREFIX}enabled": "false"}
    assert [] == procedures(small_files(inherited=off))
    (each,) = planned(small_files(inherited=off, properties={f"{PREFIX}enabled": "true"}))
    assert off == each.inherited


def test_tables_that_are_protected_or_have_an_invalid_policy_are_left_alone() -> None:
    tables = [
        small_files(1, protected=True),
        small_files(2, properties={f"{PREFIX}procedures": "vacuum"}),
        small_files(3),
    ]
    plan = plan_maintenance(tables, NOW, rewrite_bytes_max=GIB)
    assert ["lake.sales.t3"] == [each.name for each in plan.candidates]
    assert [
        ("lake.sales.t1", "The table is protected"),
        ("lake.sales.t2", f"Invalid {PREFIX}procedures: 'vacuum' is not one of {', '.join(PROCEDURES)}"),
    ] == list(plan.skipped)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (f"{PREFIX}enabled", "yes"), (f"{PREFIX}min-input-files", "1"), (f"{PREFIX}min-input-files", "many"),
        (f"{PREFIX}orphan-files-min-age-days", "0"), (f"{PREFIX}orphan-files-interval-days", "-1"), ("gc.enabled", ""),
        ("write.target-file-size-bytes", "0"), ("history.expire.max-snapshot-age-ms", "5d"), ("history.expire.min-snapshots-to-keep", "0"),
        (f"{PREFIX}min-input-files", "9" * 19), (f"{PREFIX}min-input-files", "9" * 5_000), ("write.target-file-size-bytes", str(2**63)),
        (f"{PREFIX}orphan-files-min-age-days", "36501"), (f"{PREFIX}orphan-files-interval-days", "36501"),
        ("history.expire.min-snapshots-to-keep", str(2**31)),
    ],
)  # fmt: skip
def test_an_invalid_value_names_the_property(name: str, text: str) -> None:
    with pytest.raises(InvalidPolicyError, match=f"^Invalid {name}: '{text[:64]}' is "):
        parse_policy({name: text})


def test_the_largest_values_can_be_planned_with() -> None:
    """Java's largest number keeps all snapshots."""
    largest = {
        "history.expire.max-snapshot-age-ms": str(2**63 - 1), "write.target-file-size-bytes": str(2**63 - 1),
        f"{PREFIX}orphan-files-min-age-days": "36500", f"{PREFIX}orphan-files-interval-days": "36500",
    }  # fmt: skip
    assert NOW - timedelta(milliseconds=parse_policy(largest).snapshot_max_age_ms) < NOW
    table = small_files(
        properties=largest,
        first_commit_at=NOW - timedelta(days=9),
        last_commit_at=NOW,
        snapshots=9,
        old_snapshots=8,
        past=[past("remove_orphan_files")],
    )
    assert {"rewrite_data_files", "expire_snapshots"} == set(procedures(table))


def test_defaults_and_the_smallest_values() -> None:
    assert (5, 536_870_912, 432_000_000, 1, 3, 30) == astuple(MaintenancePolicy())[1:]
    smallest = {
        "write.target-file-size-bytes": "1", "history.expire.max-snapshot-age-ms": "1", "history.expire.min-snapshots-to-keep": "1",
        f"{PREFIX}min-input-files": "2", f"{PREFIX}orphan-files-min-age-days": "1", f"{PREFIX}orphan-files-interval-days": "1",
    }  # fmt: skip
    assert (2, 1, 1, 1, 1, 1) == astuple(parse_policy(smallest))[1:]
    assert 36_500 * 86_400_000 == parse_policy({"history.expire.max-snapshot-age-ms": str(2**63 - 1)}).snapshot_max_age_ms


def test_properties_set_the_policy() -> None:
    assert MaintenancePolicy() == parse_policy({"owner": "me"})
    given = {
        f"{PREFIX}enabled": "TRUE", f"{PREFIX}procedures": "expire_snapshots", f"{PREFIX}min-input-files": "2",
        f"{PREFIX}orphan-files-min-age-days": "1", f"{PREFIX}orphan-files-interval-days": "9", "write.target-file-size-bytes": "7",
        "history.expire.max-snapshot-age-ms": "8", "history.expire.min-snapshots-to-keep": "3",
    }  # fmt: skip
    assert MaintenancePolicy(frozenset(["expire_snapshots"]), 2, 7, 8, 3, 1, 9) == parse_policy(given)
    assert frozenset() == parse_policy({f"{PREFIX}procedures": " ,"}).procedures

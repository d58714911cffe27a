"""Plans maintenance from facts about the tables: what to run, why, in which order, and what has to wait. No I/O.

The order is by benefit for cost: files, manifests and snapshots that go, for each GiB that is rewritten. Estimates are rough, because the
facts are sums over commits. What a run achieved is an event too, and a procedure that achieved much less than estimated is not run on the
table again for some time.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from ..domain.maintenance import PROCEDURES
from .maintenance_policy import DELETE_GRANULARITY, InvalidPolicyError, MaintenancePolicy, parse_policy

MANIFESTS_MIN: Final = 50
"""Manifests written since the last rewrite of manifests from which another one is planned."""
SNAPSHOTS_MIN: Final = 5
"""Expired snapshots from which they are removed."""
QUIET_COMMITS_MIN: Final = 24
QUIET_DAYS_MIN: Final = 3
"""Commits in two weeks, and age of a table, from which it has quiet and busy hours."""
ESTIMATE_SHARE_MIN: Final = 0.5
"""A run that achieves a smaller share of its estimate is followed by BELOW_ESTIMATE_PAUSE."""
BELOW_ESTIMATE_PAUSE: Final = timedelta(days=7)
FAILED_PAUSE: Final = timedelta(days=1)
"""After a failure, a conflict or a run without an outcome; doubled for each one in a row, up to FAILED_PAUSE_MAX."""
FAILED_PAUSE_MAX: Final = timedelta(days=30)
_DOUBLINGS_MAX: Final = 5
"""Enough for FAILED_PAUSE_MAX."""
AFTER_REWRITE: Final = "until data files are rewritten, which also applies deletes"
_ENDINGS: Final = {"unfinished": "has no outcome yet", "conflict": "conflicted with other commits"}
_DAY_MS: Final = 24 * 3_600 * 1_000
_GIB: Final = 1024**3
_RUN_COST_GIB: Final = 0.05
"""What a run costs besides the bytes it rewrites."""
_WEIGHTS: Final = {
    "data-files-removed": 1.0,
    "delete-files-removed": 2.0,
    "manifests-removed": 1.0,
    "snapshots-removed": 0.1,
    "files-deleted": 0.1,
}
"""How much one of them is worth to readers, in data files. Each read merges delete files."""
_COMPARED_MEASURES: Final = {
    "rewrite_data_files": "data-files-removed",
    "rewrite_position_delete_files": "delete-files-removed",
    "rewrite_manifests": "manifests-removed",
    "expire_snapshots": "snapshots-removed",
}
"""The measure by which a run is compared with its estimate. Orphan files cannot be estimated."""


@dataclass(frozen=True, slots=True)
class PastRun:
    """A run and its outcome; `unfinished` if it has none: it is going on, or its job was killed.

    finished_at -- of an unfinished run: when it was planned. estimate, measured -- domain/maintenance.py, MEASURES.
    """

    procedure: str
    finished_at: datetime
    outcome: str
    estimate: Mapping[str, int]
    measured: Mapping[str, int]

    @property
    def below_estimate(self) -> bool:
        measure = _COMPARED_MEASURES.get(self.procedure)
        expected = 0 if measure is None else self.estimate.get(measure, 0)
        return measure is not None and self.outcome == "success" and self.measured.get(measure, 0) < ESTIMATE_SHARE_MIN * expected


@dataclass(frozen=True, slots=True)
class TableFacts:
    """What the landed tables say of a table.

    data_files, data_bytes, position_delete_files -- of the current snapshot. new_files, new_bytes -- added since the last rewrite of data
    files. new_manifests -- commits with a snapshot since the last rewrite of manifests. snapshots -- of the table. old_snapshots -- those
    older than the maximum age of its properties.
    commits_by_hour -- of the day, in UTC, in the last two weeks. past -- runs on the table, newest first. inherited -- policies of the
    namespaces above, which its own properties precede.
    """

    table_id: UUID
    warehouse_id: UUID
    name: str
    properties: Mapping[str, str]
    protected: bool = False
    data_files: int = 0
    data_bytes: int = 0
    position_delete_files: int = 0
    new_files: int = 0
    new_bytes: int = 0
    new_manifests: int = 0
    snapshots: int = 0
    old_snapshots: int = 0
    first_commit_at: datetime | None = None
    last_commit_at: datetime | None = None
    commits_by_hour: Mapping[int, int] = field(default_factory=dict)
    past: Sequence[PastRun] = ()
    inherited: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A procedure that is worth running on a table. inherited -- policies of the namespaces above. wait_reason -- why it does not run
    now; None: it does.
    """

    table_id: UUID
    warehouse_id: UUID
    name: str
    procedure: str
    reason: str
    estimate: Mapping[str, int]
    inherited: Mapping[str, str] = field(default_factory=dict)
    wait_reason: str | None = None

    @property
    def score(self) -> float:
        """Benefit for cost."""
        benefit = sum(weight * self.estimate.get(measure, 0) for measure, weight in _WEIGHTS.items())
        return benefit / (_RUN_COST_GIB + self.estimate.get("bytes-rewritten", 0) / _GIB)


@dataclass(frozen=True, slots=True)
class Plan:
    """candidates -- the best first. skipped -- tables that are left alone, with the reason."""

    candidates: Sequence[Candidate]
    skipped: Sequence[tuple[str, str]]

    @property
    def waiting(self) -> Sequence[Candidate]:
        return [each for each in self.candidates if each.wait_reason is not None]

    @property
    def runs(self) -> Sequence[Candidate]:
        """What runs now: tables by their best procedure, and the procedures of one table in the order in which they help each other."""
        now = [each for each in self.candidates if each.wait_reason is None]
        order = {table_id: number for number, table_id in enumerate(dict.fromkeys(each.table_id for each in now))}
        return sorted(now, key=lambda each: (order[each.table_id], PROCEDURES.index(each.procedure)))


def plan_maintenance(facts: Iterable[TableFacts], now: datetime, *, rewrite_bytes_max: int, any_time: bool = False) -> Plan:
    """The plan for these tables at a moment.

    rewrite_bytes_max -- a limit on the bytes that all runs rewrite. any_time -- also in the busy hours of tables.
    """
    candidates: list[Candidate] = []
    skipped: list[tuple[str, str]] = []
    for table in facts:
        try:
            policy = parse_policy({**table.inherited, **table.properties})
        except InvalidPolicyError as error:
            skipped.append((table.name, str(error)))
            continue
        if table.protected:
            skipped.append((table.name, "The table is protected"))
            continue
        busy = None if any_time else _busy_reason(table, now)
        candidates += [
            replace(each, wait_reason=_pause_reason(table, each.procedure, now) or busy)
            for each in _candidates(table, policy, now)
            if each.procedure in policy.procedures
        ]
    rewritten = {each.table_id for each in candidates if each.procedure == "rewrite_data_files" and each.wait_reason is None}
    candidates = [
        replace(each, wait_reason=each.wait_reason or AFTER_REWRITE)
        if each.procedure == "rewrite_position_delete_files" and each.table_id in rewritten
        else each
        for each in candidates
    ]
    candidates.sort(key=lambda each: (-each.score, each.name, each.procedure))
    return Plan(_within_budget(candidates, rewrite_bytes_max), skipped)


def _candidates(table: TableFacts, policy: MaintenancePolicy, now: datetime) -> Iterable[Candidate]:
    def candidate(procedure: str, reason: str, **estimate: int) -> Candidate:
        measures = {measure.replace("_", "-"): count for measure, count in estimate.items()}
        return Candidate(table.table_id, table.warehouse_id, table.name, procedure, reason, measures, table.inherited)

    files, size = min(table.new_files, table.data_files), min(table.new_bytes, table.data_bytes)
    if files >= policy.min_input_files and size < 0.75 * policy.target_file_bytes * files:
        after = -(-size // policy.target_file_bytes) or 1
        sizes = f"{_size(size // files)} each on average, for a target of {_size(policy.target_file_bytes)}"
        reason = f"{files} data files since the last rewrite, {sizes}"
        yield candidate("rewrite_data_files", reason, data_files_removed=files - after, bytes_rewritten=size)
    deletes = table.position_delete_files
    # Unless the property says otherwise, Iceberg writes a delete file for each data file.
    after = 1 if table.properties.get(DELETE_GRANULARITY) == "partition" else max(1, min(table.data_files, deletes))
    if deletes >= policy.min_input_files and deletes > after:
        reason = f"{deletes} position delete files, which every read merges"
        yield candidate("rewrite_position_delete_files", reason, delete_files_removed=deletes - after)
    if table.new_manifests >= MANIFESTS_MIN:
        reason = f"{table.new_manifests} commits since the last rewrite of manifests, each with a manifest of its own"
        yield candidate("rewrite_manifests", reason, manifests_removed=table.new_manifests - 1)
    expirable = min(table.old_snapshots, table.snapshots - policy.snapshots_to_keep)
    if expirable >= SNAPSHOTS_MIN:
        age = _duration(policy.snapshot_max_age_ms)
        yield candidate("expire_snapshots", f"{expirable} snapshots older than {age}", snapshots_removed=expirable)
    if (since := _orphans_reason(table, policy, now)) is not None:
        yield candidate("remove_orphan_files", since, files_deleted=0)


def _orphans_reason(table: TableFacts, policy: MaintenancePolicy, now: datetime) -> str | None:
    """The reason to look for orphan files: it lists the table's folder, so it is rare, and never without a commit in between."""
    last = next((run.finished_at for run in table.past if run.procedure == "remove_orphan_files" and run.outcome == "success"), None)
    if table.first_commit_at is None or table.last_commit_at is None:
        return None
    if now - table.first_commit_at < timedelta(days=policy.orphan_min_age_days):
        return None
    if last is None:
        return "orphan files have never been looked for"
    if now - last < timedelta(days=policy.orphan_interval_days) or table.last_commit_at < last:
        return None
    return f"orphan files were last looked for {(now - last).days} days ago"


def _pause_reason(table: TableFacts, procedure: str, now: datetime) -> str | None:
    """Why the procedure does not run again yet, by the outcomes before."""
    past = [run for run in table.past if run.procedure == procedure and run.outcome != "unavailable"]
    if not past:
        return None
    failures = next((number for number, run in enumerate(past) if run.outcome == "success"), len(past))
    if failures:
        pause = min(FAILED_PAUSE * 2 ** min(failures - 1, _DOUBLINGS_MAX), FAILED_PAUSE_MAX)
        last = f"the last run {_ENDINGS.get(past[0].outcome, 'failed')}"
        said = last if failures == 1 else f"{failures} runs in a row failed"
    elif past[0].below_estimate:
        pause, said = BELOW_ESTIMATE_PAUSE, f"the last run achieved less than {ESTIMATE_SHARE_MIN:.0%} of its estimate"
    else:
        return None
    until = past[0].finished_at + pause
    return None if until <= now else f"until {until:%Y-%m-%d %H:%M}Z: {said}"


def _busy_reason(table: TableFacts, now: datetime) -> str | None:
    """Whether the table usually has more commits at this hour than on average."""
    total = sum(table.commits_by_hour.values())
    if table.first_commit_at is None or now - table.first_commit_at < timedelta(days=QUIET_DAYS_MIN):
        return None
    if total < QUIET_COMMITS_MIN or 24 * table.commits_by_hour.get(now.hour, 0) <= total:
        return None
    quiet = next(hour for hour in ((now.hour + offset) % 24 for offset in range(1, 25)) if 24 * table.commits_by_hour.get(hour, 0) <= total)
    return f"until {quiet:02}:00Z: the table is busy at this hour"


def _within_budget(candidates: Sequence[Candidate], rewrite_bytes_max: int) -> list[Candidate]:
    """Candidates in order of score. One that exceeds the remaining budget waits; later, smaller ones may still fit."""
    left, within = rewrite_bytes_max, []
    for each in candidates:
        size = each.estimate.get("bytes-rewritten", 0)
        fits = size <= left
        if each.wait_reason is None and fits:
            left -= size
        over = None if fits else f"would rewrite {_size(size)}; {_size(left)} of the budget remain"
        within.append(replace(each, wait_reason=each.wait_reason or over))
    return within


def _size(count: int) -> str:
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            break
        size /= 1024
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"


def _duration(milliseconds: int) -> str:
    for unit, size in (("days", _DAY_MS), ("hours", _DAY_MS // 24), ("minutes", 60_000)):
        if milliseconds >= size:
            return f"{milliseconds / size:.3g} {unit}"
    return f"{milliseconds / 1_000:.3g} seconds"

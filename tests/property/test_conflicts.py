"""Conflicting commits: those that two processes accept are a serial order by Iceberg's own Java code, and the others are refused
correctly.

Each contention is a table in a random state and several concurrent commits through the queues of two catalogs on one real Postgres.
ICECORE_TEST_CONTENTIONS sets their number.
"""

import asyncio
import os
import secrets
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Coroutine, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import orjson
import psycopg
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from psycopg import sql
from psycopg.conninfo import make_conninfo
from uuid_utils.compat import uuid7

from icecore.access.resolve_warehouse import resolve_warehouse
from icecore.access.warehouse import Warehouse
from icecore.commands.execution.command_response import CommandResponse
from icecore.commands.namespaces.create_namespace import create_namespace
from icecore.commands.tables.commit_table import commit_table
from icecore.compose import Application
from icecore.domain.commands import CommitTable, CreateNamespace
from icecore.domain.documents import TABLE_KINDS, Delta, apply_delta, split
from icecore.domain.errors import CatalogError, CommitFailed
from icecore.domain.identifiers import NamespaceIdentifier, TabularIdentifier
from icecore.queries.load_table import load_table
from tests.fixtures.catalog import PROJECT_ID, context, opened_catalog
from tests.fixtures.oracle import JavaOracle
from tests.property.contending_commits import Commit, Contention, Json, Move, beginning, commit_of, contentions
from tests.property.test_table_metadata_oracle import JAVA_FAILS, REFUSALS, written

CONTENTIONS = int(os.environ.get("ICECORE_TEST_CONTENTIONS", "2000"))
# How many run concurrently. They share Postgres's flushes, like writers of different tables.
TOGETHER = 20
NAMESPACE = NamespaceIdentifier(("n",))

_T = TypeVar("_T")


@dataclass(slots=True)
class Logged:
    """A version of the table in the log; the first is the initial state."""

    request_id: str
    metadata_location: str
    document: Json


@dataclass(slots=True)
class Outcome:
    """The outcome of a contention: each commit's response, with its request id."""

    commits: list[Commit]
    responses: list[tuple[str, CommandResponse | CatalogError]]
    log: list[Logged]
    loaded: Json


@dataclass(slots=True)
class Tally:
    """Counts the kinds of contention, to check that enough commits conflicted."""

    contentions: int = 0
    several_accepted: int = 0
    with_conflict: int = 0
    commits: Counter[str] = field(default_factory=Counter)


class Contenders:
    """Two catalogs on one database with concurrent commits."""

    def __init__(self, catalogs: list[Application], warehouse: Warehouse, runner: asyncio.Runner, directory: Path, dsn: str) -> None:
        self.catalogs = catalogs
        self._warehouse = warehouse
        self._runner = runner
        self._directory = directory
        self._dsn = dsn

    def run(self, contentions: list[Contention]) -> list[Outcome]:
        async def all_of_them() -> list[Outcome]:
            return await asyncio.gather(*(self._contend(contention) for contention in contentions))

        return self._runner.run(all_of_them())

    async def _contend(self, contention: Contention) -> Outcome:
        table = TabularIdentifier(NAMESPACE, f"t{uuid7().hex}")
        now_ms = time.time_ns() // 1_000_000
        updates = beginning(contention, f"file://{self._directory}/{table.name}", now_ms)
        _, created = await self._commit(0, CommitTable(table, [{"type": "assert-create"}], updates))
        assert isinstance(created, CommandResponse), created
        seen = await self._load(table)
        commits = [commit_of(move, number, seen) for number, move in enumerate(contention.moves)]
        responses = await asyncio.gather(
            *(self._commit(commit.move.process, CommitTable(table, commit.requirements, commit.updates)) for commit in commits)
        )
        return Outcome(commits, responses, await self._log(created.position), await self._load(table))

    async def _commit(self, process: int, command: CommitTable) -> tuple[str, CommandResponse | CatalogError]:
        request = context("updateTable")
        try:
            return request.request_id, await commit_table(self.catalogs[process].commands, request, self._warehouse, command)
        except CatalogError as refusal:
            return request.request_id, refusal

    async def _load(self, table: TabularIdentifier) -> Json:
        response = await load_table(self.catalogs[1].queries, context("loadTable"), self._warehouse, table)
        assert response.body is not None
        metadata: Json = orjson.loads(response.body)["metadata"]
        return metadata

    async def _log(self, begins_at: int) -> list[Logged]:
        """The stream's events folded one after the other."""
        query = (
            "select request_id, state from icecore.events where originator_id ="
            " (select originator_id from icecore.events where notification_id = %s) order by originator_version"
        )
        async with self.catalogs[0].backends.connection() as connection:
            rows = await (await connection.execute(query, (begins_at,))).fetchall()
        states = [(request_id, orjson.loads(state)) for request_id, state in rows]
        document = split(states[0][1]["metadata"], TABLE_KINDS)
        log = [Logged(states[0][0], states[0][1]["metadata-location"], document.value)]
        for request_id, state in states[1:]:
            document = apply_delta(document, Delta.from_json(state["delta"]))
            log.append(Logged(request_id, state["metadata-location"], document.value))
        return log


@pytest.fixture(scope="module")
def contenders(admin_dsn: str, template_database: str) -> Iterator[Contenders]:
    """Two catalogs in this process, each with its own queues, committer and caches."""
    name = f"test_{secrets.token_hex(6)}"
    directory = Path(tempfile.mkdtemp(prefix="icecore-test-"))
    create = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY")
    drop = sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name))
    with psycopg.connect(admin_dsn, autocommit=True) as connection, asyncio.Runner() as runner:
        connection.execute(create.format(sql.Identifier(name), sql.Identifier(template_database)))
        dsn = make_conninfo(admin_dsn, dbname=name)
        opened = AsyncExitStack()
        catalogs = [_run(runner, opened.enter_async_context(opened_catalog(dsn, directory))) for _ in range(2)]
        warehouse = _run(runner, resolve_warehouse(catalogs[0].backends, PROJECT_ID, "demo"))
        _run(runner, create_namespace(catalogs[0].commands, context("createNamespace"), warehouse, CreateNamespace(NAMESPACE, {})))
        yield Contenders(catalogs, warehouse, runner, directory, dsn)
        _run(runner, opened.aclose())
        connection.execute(drop)
    shutil.rmtree(directory)


def _run(runner: asyncio.Runner, work: Coroutine[Any, Any, _T]) -> _T:
    return runner.run(work)


def comparable(document: Json) -> bytes:
    return orjson.dumps(document, option=orjson.OPT_SORT_KEYS)


class Judge:
    """Compares an outcome with the result of Iceberg's Java code for the same commits in the log's order."""

    def __init__(self, oracle: JavaOracle, outcome: Outcome) -> None:
        self._oracle = oracle
        self._outcome = outcome
        self._states: list[Json] = [written(outcome.log[0].document)]
        self.accepted: list[Commit] = []
        self.conflicts: list[Commit] = []

    def judge(self) -> None:
        asked = {id_: (commit, response) for commit, (id_, response) in zip(self._outcome.commits, self._outcome.responses, strict=True)}
        effective = [logged.request_id for logged in self._outcome.log[1:]]
        assert len({*effective}) == len(effective), "two events of one commit"
        for version, request_id in enumerate(effective, 1):
            commit, response = asked.pop(request_id)
            assert isinstance(response, CommandResponse), f"{commit} was refused with {response!r} and is in the log"
            self._follow(version, commit, response)
            self.accepted.append(commit)
        for commit, response in asked.values():
            if isinstance(response, CatalogError):
                self._refused(commit, response)
            else:
                self._changed_nothing(commit)
                self.accepted.append(commit)
        assert comparable(self._states[-1]) == comparable(self._outcome.loaded), "a load shows something else than the log's last version"
        self._disjoint_survive()

    def _follow(self, version: int, commit: Commit, response: CommandResponse) -> None:
        """Java accepts the commit on the state before it, and its result is the document of the fold."""
        logged, before = self._outcome.log[version], self._outcome.log[version - 1]
        said = self._ask(commit, self._states[-1], before.metadata_location, logged.document["last-updated-ms"])
        assert "ok" in said, f"Java refuses {commit} after {len(self._states) - 1} others: {said}"
        assert said["ok"]["changed"], f"Java finds that {commit} changes nothing"
        document: Json = said["ok"]["metadata"]
        assert comparable(document) == comparable(written(logged.document))
        assert response.body is not None
        assert comparable(document) == comparable(orjson.loads(response.body)["metadata"])
        self._states.append(document)

    def _changed_nothing(self, commit: Commit) -> None:
        """At some point of the order, the commit was valid and changed nothing."""
        said = [self._ask(commit, state) for state in self._states]
        assert any("ok" in one and not one["ok"]["changed"] for one in said), f"{commit} left no event, and Java says {said}"

    def _refused(self, commit: Commit, refusal: CatalogError) -> None:
        """At some point of the order, Java refuses the commit in the same way."""
        said = [self._ask(commit, state) for state in self._states]
        kinds = {one["error"]["type"] for one in said if "error" in one}
        rightly = any(kind in JAVA_FAILS or isinstance(refusal, REFUSALS[kind]) for kind in kinds)
        assert rightly, f"{commit} was refused with {refusal!r}, and Java says {kinds or 'yes at any point'}"
        if "ok" in said[0]:
            self.conflicts.append(commit)

    def _disjoint_survive(self) -> None:
        """A commit without common elements that was valid on the seen state is accepted."""
        for commit in self._outcome.commits:
            others = [other for other in self._outcome.commits if other is not commit]
            if any(commit.touches & other.touches for other in others) or any(commit is one for one in self.accepted):
                continue
            assert "error" in self._ask(commit, self._states[0]), f"{commit} was refused though it meets no other commit"

    def _ask(self, commit: Commit, base: Json, location: str | None = None, now_ms: int | None = None) -> Json:
        request = {"kind": "table", "base": base, "base-location": location, "now-ms": now_ms or 0}
        return self._oracle.ask({**request, "requirements": commit.requirements, "updates": commit.updates})


def test_what_is_accepted_is_a_serial_order_and_what_is_refused_is_refused_rightly(contenders: Contenders, java_oracle: JavaOracle) -> None:
    """For every interleaving, the log is a serial order by Java's rules, and every other commit is refused by one of them."""
    tally = Tally()
    broken: list[AssertionError] = []

    @settings(
        max_examples=-(-CONTENTIONS // TOGETHER),
        deadline=None,
        derandomize=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        phases=[Phase.generate],
    )
    @given(st.lists(contentions(), min_size=TOGETHER, max_size=TOGETHER))
    def contend(drawn: list[Contention]) -> None:
        if broken:
            return
        for contention, outcome in zip(drawn, contenders.run(drawn), strict=True):
            judge = Judge(java_oracle, outcome)
            try:
                judge.judge()
            except AssertionError as error:
                # Reported below, because the example may pass when Hypothesis runs it again.
                error.add_note(f"{contention}\n{outcome.responses}")
                broken.append(error)
            _count(tally, outcome, judge)

    contend()
    if broken:
        raise broken[0]
    queues = [catalog.commands.queues.metrics for catalog in contenders.catalogs]
    batched = sum(length * batches for figures in queues for length, batches in figures.batch_lengths.items())
    batches = sum(figures.batch_lengths.total() for figures in queues)
    print(f"\n{tally}, batches of {batched / batches:.2f} commits, {sum(figures.conflicts for figures in queues)} conflicts with the other")
    assert tally.contentions >= CONTENTIONS
    assert tally.several_accepted * 3 >= tally.contentions, tally
    assert tally.with_conflict * 3 >= tally.contentions, tally


def _count(tally: Tally, outcome: Outcome, judge: Judge) -> None:
    tally.contentions += 1
    tally.several_accepted += len(judge.accepted) >= 2
    tally.with_conflict += bool(judge.conflicts)
    tally.commits["accepted"] += len(judge.accepted)
    tally.commits["refused for another"] += len(judge.conflicts)
    tally.commits["all"] += len(outcome.commits)


def test_the_judge_sees_a_lost_commit_a_lie_and_a_wrong_refusal(contenders: Contenders, java_oracle: JavaOracle) -> None:
    """Negative control: outcomes of a faulty catalog are detected."""
    moves = [Move("properties", which, 1, which % 2) for which in range(3)]
    (outcome,) = contenders.run([Contention(2, 2, 1, 1, moves)])
    Judge(java_oracle, outcome).judge()
    lost = replace(outcome, log=[outcome.log[0], *outcome.log[2:]])
    swapped = replace(outcome, log=[outcome.log[0], outcome.log[2], outcome.log[1], *outcome.log[3:]])
    refusal = CommitFailed("Requirement failed")
    denied = replace(outcome, responses=[(id_, refusal) for id_, _ in outcome.responses])
    wrongly = replace(outcome, responses=[(id_, refusal) for id_, _ in outcome.responses], log=outcome.log[:1])
    stale = replace(outcome, loaded=outcome.log[0].document)
    for wrong in (lost, swapped, denied, wrongly, stale):
        with pytest.raises(AssertionError):
            Judge(java_oracle, wrong).judge()

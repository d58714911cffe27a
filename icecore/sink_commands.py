"""Commands for sinks: show their state, publish again, skip an event."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import orjson
import uvloop
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column, Table
from uuid_utils.compat import uuid7

from .database.connection import connect
from .database.connections import Connection
from .domain.scope_filter import FilterError
from .exit_codes import CommandFailed, ExitCode
from .log.head import is_standby, log_head
from .log_database import opened_database, require_schema, require_writable
from .publishers import checkpoints
from .publishers.checkpoints import SinkStatus
from .publishers.event_filter import EventFilter
from .settings import Settings
from .sinks import publishers
from .waiting_notice import NOTICE_SECONDS, print_notice

PROGRESS_SECONDS = 0.1
_LINE_COLUMNS_MAX = 10_000
"""Width of a table that is not printed to a terminal."""
_FILTER_KEYS = {"type": "types", "warehouse": "warehouses", "namespace": "namespaces"}


def show(settings: Settings, console: Console, *, as_json: bool) -> ExitCode:
    """Prints every sink with its lag, leader and last error. The exit code is 1 if one needs attention."""

    async def run(opened: Settings) -> tuple[list[SinkStatus], int, bool]:
        async with _connection(opened, writes=False) as connection:
            return await checkpoints.sink_statuses(connection), await log_head(connection), await is_standby(connection)

    with opened_database(settings) as opened:
        found, head, standby = uvloop.run(run(opened))
    known = {each.name: each for each in found}
    names = sorted({*known, *settings.sinks})
    rows = [sink_row(name, known.get(name), head, configured=name in settings.sinks, standby=standby) for name in names]
    if as_json:
        console.out(orjson.dumps(rows, option=orjson.OPT_UTC_Z).decode(), highlight=False)
    elif not rows:
        text = "no sinks; add a table [sinks.NAME] to the settings: see 'Event sinks' in the documentation"
        console.print(text, markup=False, soft_wrap=True)
    else:
        print_table(rows, settings, console)
    return ExitCode.NO if any(row["problems"] for row in rows) else ExitCode.OK


def sink_row(name: str, status: SinkStatus | None, head: int, *, configured: bool, standby: bool = False) -> dict[str, Any]:
    """What operators see of one sink. `problems` -- what needs attention.

    standby -- `status` was read from a standby, which does not have the locks of leaders.
    """
    if status is None:
        return {
            "name": name,
            "position": None,
            "lag-events": head,
            "standby": standby,
            "problems": [
                "not started, as far as this standby has replayed"
                if standby
                else "not started: is `icecore serve` or `icecore worker` running?"
            ],
        }
    waiting = None if status.waiting_since is None else (datetime.now(UTC) - status.waiting_since).total_seconds()
    replay = None
    if status.replay_id is not None:
        replay = {"id": status.replay_id, "from": status.replay_from, "to": status.replay_to, "position": status.replay_position}
    return {
        "name": name,
        "configured": configured,
        "position": status.position,
        "lag-events": status.head - status.position,
        "lag-seconds": waiting,
        "leader": status.leader if status.led else None,
        "led-since": status.led_since,
        "last-error": status.last_error,
        "last-error-at": status.last_error_at,
        "blocked-position": status.blocked_position,
        "lost-position": status.lost_position,
        "skips": status.skips,
        "replay": replay,
        "standby": standby,
        # The last problems of a sink that was removed from the settings remain in its row.
        "problems": _problems(name, status, standby=standby) if configured or status.led else [],
    }


def _problems(name: str, status: SinkStatus, *, standby: bool) -> list[str]:
    problems = []
    if status.last_error:
        problems.append(status.last_error)
    if status.blocked_position:
        problems.append(f"fix the destination, or: icecore sinks skip {name} {status.blocked_position} --reason …")
    if status.lost_position:
        problems.append(f"the broker lost events up to {status.lost_position}; publish them again: icecore sinks replay {name} --from 1")
    if not status.led and not standby:
        problems.append("no leader: is `icecore serve` or `icecore worker` running?")
    return problems


def print_table(rows: list[dict[str, Any]], settings: Settings, console: Console) -> None:
    """Prints a line for each sink. Only a terminal wraps them."""
    table = Table(
        "sink", "type", Column("position", justify="right"), Column("lag", justify="right"), "leader", "state", box=None, pad_edge=False
    )
    for row in rows:
        sink = settings.sinks.get(row["name"])
        lag = str(row["lag-events"]) + (f" ({row['lag-seconds']:.0f} s)" if row.get("lag-seconds") else "")
        fine = "leader unknown: this Postgres is a standby" if row["standby"] else "healthy"
        if not row.get("configured", True) and row["leader"] is None:
            fine = f"not in the settings: {'leader unknown' if row['standby'] else 'nothing is published to it'}"
        state = "; ".join(row["problems"]) or (f"replay at {row['replay']['position']}" if row.get("replay") else fine)
        position = "" if row["position"] is None else str(row["position"])
        table.add_row(row["name"], "unknown" if sink is None else sink.type, position, lag, row.get("leader") or "", state)
    if not console.is_terminal:
        console.width = _LINE_COLUMNS_MAX
    console.print(table)


def skip(settings: Settings, console: Console, name: str, position: int, reason: str) -> ExitCode:
    """Records that a sink may skip an event. Prints a note if the sink has passed it already, so that only replays skip it."""
    _require_sink(settings, name)
    if not reason.strip():
        raise CommandFailed(ExitCode.USAGE, "--reason must not be blank")

    async def run(opened: Settings) -> tuple[bool, int]:
        async with _connection(opened) as connection:
            # Read before the skip is recorded, because a waiting sink continues at once.
            reached = max((each.position for each in await checkpoints.sink_statuses(connection) if each.name == name), default=0)
            return await checkpoints.skip(connection, name, position, reason, "operator"), reached

    with opened_database(settings) as opened:
        recorded, reached = uvloop.run(run(opened))
    if not recorded:
        raise CommandFailed(ExitCode.USAGE, f"position {position} is not in the log")
    if position <= reached:
        said = f"{name} is already at position {reached}: only replays will skip position {position}"
    else:
        said = f"{name} will skip position {position}"
    console.print(said, highlight=False, soft_wrap=True)
    return ExitCode.OK


def replay(settings: Settings, console: Console, name: str, first: int, last: int | None, filters: list[str]) -> ExitCode:
    """Publishes a part of the log again, marked as a replay, through the sink's leader. If there is none, this process leads."""
    _require_sink(settings, name)
    event_filter = parse_filter(filters)
    with opened_database(settings) as opened:
        return uvloop.run(replay_to_sink(opened, console, name, first, last, event_filter))


def cancel_replays(settings: Settings, console: Console, name: str) -> ExitCode:
    """Cancels the sink's replays that have not finished, such as one whose command was killed. A running `replay` ends."""
    _require_sink(settings, name)

    async def run(opened: Settings) -> list[tuple[UUID, int]]:
        async with _connection(opened) as connection:
            return await checkpoints.cancel_replays(connection, name)

    with opened_database(settings) as opened:
        cancelled = uvloop.run(run(opened))
    for replay_id, position in cancelled:
        console.print(f"replay {replay_id} to {name} cancelled after position {position}", highlight=False, soft_wrap=True)
    if not cancelled:
        console.print(f"{name} has no replay to cancel", highlight=False, soft_wrap=True)
    return ExitCode.OK


async def replay_to_sink(
    settings: Settings, console: Console, name: str, first: int, last: int | None, event_filter: EventFilter
) -> ExitCode:
    """Publishes positions `first` to `last` (None: the end) again. `settings` have their database."""
    publisher = publishers(settings)[name]
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # `nohup` ignores SIGHUP.
        if signal.getsignal(number) is not signal.SIG_IGN:
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with _connection(settings) as connection:
        head = await log_head(connection)
        given = f"--from {first}" if last is None else f"--from {first} --to {last}"
        positions = f"has positions 1 to {head}" if head else "has no events yet"
        last = head if last is None else last
        if not 1 <= first <= last <= head:
            raise CommandFailed(ExitCode.USAGE, f"{given} is not in the log, which {positions}")
        replay_id = uuid7()
        await checkpoints.request_replay(connection, replay_id, name, first, last, event_filter)
        publishing = asyncio.create_task(publisher.run(stop))
        try:
            await _watch(connection, name, replay_id, first, last, stop)
        finally:
            stop.set()
            await asyncio.wait({publishing}, timeout=3)
            publishing.cancel()
        # At the end: the publisher may have published a batch after the stop, which counts.
        await checkpoints.cancel_replay(connection, replay_id)
        state = await checkpoints.replay_progress(connection, replay_id)
    if state.finished:
        said = f"{state.replayed_events} events of positions {first} to {last} published again to {name} as replay {replay_id}"
    else:
        said = f"stopped at position {state.replayed_position}; continue with --from {state.replayed_position + 1}"
    console.print(said, highlight=False, soft_wrap=True)
    return ExitCode.OK if state.finished else ExitCode.NO


async def _watch(connection: Connection, name: str, replay_id: UUID, first: int, last: int, stop: asyncio.Event) -> None:
    """Returns once all events are published, or once an operator has stopped this command or cancelled the replay.

    Says what it waits for if no event is published for NOTICE_SECONDS, with the sink's error.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("publishing", total=last - first + 1)
        said, reached, since = "", 0, time.monotonic()
        while not stop.is_set():
            state = await checkpoints.replay_progress(connection, replay_id)
            if state.replayed_position != reached:
                reached, since = state.replayed_position, time.monotonic()
            waited_for = f"the sink {name} to accept position {reached + 1}" + (f": {state.last_error}" if state.last_error else "")
            if time.monotonic() - since > NOTICE_SECONDS and waited_for != said:
                print_notice(progress.console, waited_for)
                said = waited_for
            progress.update(bar, completed=state.replayed_position - first + 1, description=(state.last_error or "publishing")[:60])
            if state.finished or state.cancelled:
                return
            await asyncio.sleep(PROGRESS_SECONDS)


def parse_filter(filters: list[str]) -> EventFilter:
    """Parses `type=table.*`, `warehouse=demo`, `namespace=a.b`. Of several filters with the same key, one must match."""
    patterns: dict[str, list[str]] = {"types": [], "warehouses": [], "namespaces": []}
    for each in filters:
        key, equals, value = each.partition("=")
        if not equals or key not in _FILTER_KEYS or not value:
            raise CommandFailed(ExitCode.USAGE, f"--filter {each} is not type=…, warehouse=… or namespace=…")
        patterns[_FILTER_KEYS[key]].append(value)
    try:
        return EventFilter.parse(tuple(patterns["types"]), tuple(patterns["warehouses"]), tuple(patterns["namespaces"]))
    except FilterError as error:
        raise CommandFailed(ExitCode.USAGE, str(error)) from None


def _require_sink(settings: Settings, name: str) -> None:
    if name not in settings.sinks:
        named = ", ".join(sorted(settings.sinks)) or "none"
        raise CommandFailed(ExitCode.USAGE, f"the settings have no sink {name}; configured sinks: {named}")


@asynccontextmanager
async def _connection(settings: Settings, *, writes: bool = True) -> AsyncIterator[Connection]:
    await (require_writable(settings) if writes else require_schema(settings))
    async with await connect(settings.dsn, prepare_threshold=0, application_name="icecore-command") as connection:
        yield connection

"""Runs the asynchronous read models, each led by one process, in threads of the library's runner."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import ParamSpec, TypeVar

import psycopg
import structlog
from eventsourcing.persistence import IntegrityError, PersistenceError
from eventsourcing.projection import ProjectionRunner
from eventsourcing.utils import Environment, EnvType

from .database.advisory_locks import try_lock
from .database.connection import connect, end_when_idle
from .database.connection_watchdog import sever
from .database.connections import Connection
from .database.outage_log import OutageLog
from .domain.client_errors import client_error_text
from .domain.recorded import RecordedEvent
from .log.event_store import LogApplication, LogFactory, LogRecorder, closed_on_failure, environment, sever_connections
from .log.head import log_head
from .projections.asynchronous.projection import AsynchronousProjection, AsynchronousView
from .projections.asynchronous.search import SearchProjection
from .projections.asynchronous.statistics import StatisticsProjection

PROJECTIONS: tuple[type[AsynchronousProjection], ...] = (StatisticsProjection, SearchProjection)

FLUSH_SECONDS = 1.0
"""How far a read model may lag, and how often a process that does not lead tries to lead."""
SILENCE_SECONDS_MAX = 10.0
"""A read model that makes no progress for this long, although the log is ahead, is restarted: a session of Postgres may be frozen."""
CLOSE_SECONDS_MAX = 2.0
LEADER_IDLE_SECONDS_MAX = 30.0
"""A frozen leader loses the lead when its session ends."""
_REBUILD_EVENTS = 1_000

_log: structlog.stdlib.BoundLogger = structlog.get_logger("icecore.projections")

P = ParamSpec("P")
Found = TypeVar("Found")


async def run_projections(dsn: str, stop: asyncio.Event) -> None:
    """Runs every asynchronous read model until `stop` is set. Failures are retried."""
    await asyncio.gather(*(run_projection(dsn, each, stop) for each in PROJECTIONS))


async def run_projection(dsn: str, projection: type[AsynchronousProjection], stop: asyncio.Event) -> None:
    """Runs one read model. While another process leads, it waits for the lead."""
    outage = OutageLog("icecore.projections", "projection_retrying", "projection_recovered", projection=projection.name)
    while not stop.is_set():
        try:
            async with await connect(dsn, application_name="icecore-projections") as leading:
                await _in_time(stop, end_when_idle(leading, LEADER_IDLE_SECONDS_MAX), partial(sever, leading))
                while not stop.is_set():
                    if await _in_time(stop, try_lock(leading, projection.LEADER_LOCK), partial(sever, leading)):
                        await _lead(dsn, projection, leading, stop, outage)
                        break
                    outage.succeeded()
                    await _sleep(FLUSH_SECONDS, stop)
        except IntegrityError:
            _log.info("projection_restarted", projection=projection.name)
        except (psycopg.Error, PersistenceError, TimeoutError) as error:
            # The library's errors wrap those of Postgres.
            cause = error.__cause__ if isinstance(error, PersistenceError) else None
            outage.failed(error=client_error_text(cause or error))
        except Exception as error:
            # A bug in one read model must not stop the others. It is retried.
            outage.failed(type(error), began="projection_failed", exc_info=error)
        await _sleep(FLUSH_SECONDS, stop)


async def _lead(dsn: str, projection: type[AsynchronousProjection], leading: Connection, stop: asyncio.Event, outage: OutageLog) -> None:
    """Leads until `stop` is set. Raises the error that ended the lead: IntegrityError, if a rebuild has moved the position."""
    runner = await _in_thread(stop, _runner, dsn, projection)
    _log.info("projection_leader_started", projection=projection.name)
    try:
        loop = asyncio.get_running_loop()
        tracked, moved_at = 0, loop.time()
        while not stop.is_set() and not runner.is_interrupted.is_set():
            await _in_thread(stop, runner.view.flush)
            before, found = tracked, await _in_thread(stop, runner.view.max_tracking_id, runner.app_name)
            tracked = found or 0
            # On the leader's session: if the session has ended, so has the lead.
            head = await _in_time(stop, log_head(leading), partial(sever, leading))
            if tracked == head or tracked != before:
                moved_at = loop.time()
            elif loop.time() - moved_at > SILENCE_SECONDS_MAX:
                raise TimeoutError
            outage.succeeded()
            await _sleep(FLUSH_SECONDS, stop)
    finally:
        closing = asyncio.ensure_future(asyncio.to_thread(_close, runner))
        if not (await asyncio.wait({closing}, timeout=CLOSE_SECONDS_MAX))[0]:
            # A thread waits for Postgres.
            sever_connections()
        await closing


async def _in_thread(stop: asyncio.Event, work: Callable[P, Found], *args: P.args, **kwargs: P.kwargs) -> Found:
    return await _in_time(stop, asyncio.to_thread(work, *args, **kwargs), sever_connections)


async def _in_time(stop: asyncio.Event, work: Coroutine[None, None, Found], cut: Callable[[], None]) -> Found:
    """Waits for `work`. If it takes too long, also after `stop` is set, its connections are `cut`, so that it fails."""
    working, stopping = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({working, stopping}, timeout=SILENCE_SECONDS_MAX, return_when=asyncio.FIRST_COMPLETED)
        if stopping.done():
            await asyncio.wait({working}, timeout=CLOSE_SECONDS_MAX)
    finally:
        stopping.cancel()
    if not working.done():
        cut()
        await asyncio.wait({working})
    return working.result()


def rebuild_projection(owner_dsn: str, projection: type[AsynchronousProjection]) -> int:
    """Computes a read model again from the log (AsynchronousView.rebuild). Returns the position of the last event. Raises psycopg.Error."""
    factory = LogFactory(Environment(projection.name, environment(owner_dsn)))
    try:
        view = factory.tracking_recorder(projection.VIEW)
        return view.rebuild(LogApplication.name, _log_batches(factory.application_recorder()))
    except PersistenceError as error:
        raise error.__cause__ or error from None
    finally:
        factory.close()


def _log_batches(recorder: LogRecorder) -> Iterator[Sequence[RecordedEvent]]:
    position = 0
    while found := recorder.select_notifications(position, _REBUILD_EVENTS, inclusive_of_start=False):
        yield [each.recorded for each in found]
        position = found[-1].id


class _Runner(ProjectionRunner[LogApplication, AsynchronousView]):
    @staticmethod
    def _construct_env(name: str, env: EnvType | None = None) -> Environment:
        """Uses only the settings passed. Environment variables of this process, such as POSTGRES_SCHEMA, may be meant for another
        program.
        """
        return Environment(name, env)


def _runner(dsn: str, projection: type[AsynchronousProjection]) -> _Runner:
    with closed_on_failure():
        runner = _Runner(application_class=LogApplication, projection_class=projection, view_class=projection.VIEW, env=environment(dsn))
        return runner.__enter__()


def _close(runner: _Runner) -> None:
    """Raises the error that ended the runner's thread."""
    try:
        runner.__exit__(None, None, None)
    finally:
        runner.view.datastore.close()


async def _sleep(seconds: float, stop: asyncio.Event) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.wait()

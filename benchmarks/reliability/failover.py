"""Failover: the primary is killed under load, its standby is promoted, and the checks read the promoted server.

With a synchronous standby every promise holds. With an asynchronous one the end of the log is lost, which the checks must see: it is the
negative control.
"""

import asyncio
import shutil
import time
from contextlib import AsyncExitStack
from pathlib import Path

from psycopg.conninfo import make_conninfo

from benchmarks.reliability.cluster import Cluster, Line, open_directory
from benchmarks.reliability.history import History, Outage
from benchmarks.reliability.nemesis import Nemesis
from benchmarks.reliability.run import TEMPLATE, WORKERS, Report, prepare_template, reported, scratch_directory, under_load
from benchmarks.reliability.server import serving

_BEFORE_SECONDS = 6.0
_LAG_SECONDS = 2.0
_AWAY_SECONDS = 2.0
_AFTER_SECONDS = 6.0
_DATABASE = "failover"


async def failover(seed: str, *, synchronous: bool) -> Report:
    """synchronous -- commits wait for the standby. Otherwise, the standby receives nothing for a while before the primary is killed."""
    history, started = History(), time.monotonic()
    async with AsyncExitStack() as opened:
        primary = await Cluster.made(_directory(opened))
        opened.callback(primary.kill)
        warehouse, scratch = (opened.enter_context(scratch_directory()) for _ in range(2))
        await prepare_template(primary, warehouse)
        await primary.copy_database(_DATABASE, TEMPLATE)
        standby = await primary.standby(_directory(opened))
        opened.callback(standby.kill)
        if synchronous:
            await primary.commit_on_standby()

        async def plan(nemesis: Nemesis) -> None:
            await asyncio.sleep(_BEFORE_SECONDS)
            if not synchronous:
                await standby.stop_receiving()
                await asyncio.sleep(_LAG_SECONDS)
            primary.kill()
            began = time.monotonic()
            await asyncio.sleep(_AWAY_SECONDS)
            ended = time.monotonic()
            await standby.promote()
            history.outages.append(Outage("failover", began, ended, time.monotonic()))
            history.count("failover")
            await asyncio.sleep(_AFTER_SECONDS)

        async with serving(_both(primary, standby), scratch, WORKERS, {}) as server:
            await under_load(server, primary, Line(primary.port), history, seed, plan)
            exit_code = await server.stop()
        name = f"failover to {'a synchronous' if synchronous else 'an asynchronous'} standby"
        report = await reported(name, seed, started, history, server, exit_code, standby.dsn(_DATABASE))
        noticed = (scratch / "icecore.log").read_text(errors="replace").count('"log_restored"')
        report.notes.append(f"{noticed} serving processes noticed that the end of the log was lost")
        return report


def _directory(opened: AsyncExitStack) -> Path:
    directory = open_directory()
    opened.callback(shutil.rmtree, directory, ignore_errors=True)
    return directory


def _both(primary: Cluster, standby: Cluster) -> str:
    """As docs/how-to/postgres-clusters.md says: libpq takes the one that accepts writes."""
    return make_conninfo(
        "",
        host="127.0.0.1,127.0.0.1",
        port=f"{primary.port},{standby.port}",
        user="postgres",
        dbname=_DATABASE,
        sslmode="disable",
        target_session_attrs="read-write",
    )

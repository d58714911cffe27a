"""Connections to Postgres: all of ours are opened in one place, with the same options."""

import ast
from pathlib import Path

import psycopg
from psycopg.conninfo import make_conninfo

from commands.committer import LOCK_TIMEOUT_SECONDS, Committer
from migrations.connection import connect
from projections.connections import ConnectionHandOff
from tests.tidy.test_layers import BELOW, CHECKOUT, modules


async def shown(connection: psycopg.AsyncConnection, name: str) -> str:
    row = await (await connection.execute("select current_setting(%s)", (name,))).fetchone()
    assert row is not None
    return str(row[0])


async def test_nothing_is_compiled_and_the_options_of_the_address_hold(database: str) -> None:
    """What an operator writes into the address is not lost, and cannot turn compilation on."""
    given = make_conninfo(database, options="-c work_mem=7MB -c jit=on")
    async with await connect(given, options="-c lock_timeout=3s") as connection:
        assert ["off", "7MB", "3s"] == [await shown(connection, name) for name in ("jit", "work_mem", "lock_timeout")]
    hand_off = ConnectionHandOff(given, 1, application_name="icecore-test")
    async with hand_off.connection() as connection:
        assert ["off", "7MB"] == [await shown(connection, name) for name in ("jit", "work_mem")]
    await hand_off.close()


async def test_the_committer_keeps_its_limits_and_compiles_nothing(database: str) -> None:
    """The session of an append has both."""
    committer = Committer(make_conninfo(database, options="-c work_mem=7MB"))
    connection = await committer._connect()
    assert ["off", "7MB", f"{LOCK_TIMEOUT_SECONDS}s"] == [await shown(connection, name) for name in ("jit", "work_mem", "lock_timeout")]
    await connection.close()


def opened_in(module: Path) -> list[int]:
    """The lines where a module opens a connection by psycopg itself."""
    calls = [node for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
    return [call.lineno for call in calls if ast.unparse(call.func) in ("AsyncConnection.connect", "psycopg.AsyncConnection.connect")]


def test_every_connection_is_opened_in_one_place() -> None:
    """One that is opened elsewhere would have other options."""
    opened = {str(module.relative_to(CHECKOUT)) for folder in BELOW for module in modules(folder) if opened_in(module)}
    assert {"migrations/connection.py"} == opened

"""`icecore doctor`: checks what a server needs, with the code that a server uses, and says how to fix a failure.

It changes nothing in the catalog and publishes no event. A sink that has a leader is not opened, because that would take the lead. The
leader's last report is shown instead.
"""

import asyncio
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal
from urllib.parse import urlsplit
from uuid import UUID

import orjson
import psycopg
import uvloop
from rich.console import Console

from .access.resolve_warehouse import as_warehouse
from .access.warehouse import Warehouse
from .address_check import address_failure, listening_server_id
from .compose import Application, open_catalog
from .data_folder import DataFolder
from .database.connection import connect
from .database.connections import Connection
from .database.named_sql import named_sql
from .database_url import database_address
from .domain.client_errors import address_of, client_error_text
from .domain.errors import CatalogError
from .exit_codes import CommandFailed, ExitCode
from .hooks import hook_failures
from .listening import check_address, local_url
from .log_database import check_database, check_read_only_database, opened_database, require_schema
from .migrations.serving_role import role_owns
from .projections import warehouses
from .projections.server import read_server_id
from .publishers import checkpoints
from .publishers.sink import Sink, SinkError
from .publishers.sink_settings import WebhookSink
from .secret_keys import count_unreadable, lacks_key, secret_store, stored_credentials
from .security.secrets import SecretUnreadable
from .server_check import UnfitServerError, check_owner
from .settings import Settings, SettingsError
from .sink_commands import sink_row
from .sinks import sink_makers
from .storage.store_errors import at_endpoint
from .waiting_notice import noticed

CLOCK_SECONDS_MAX = 2.0
"""Limit on the difference between the clocks. Events use the database's clock, requests to stores that of this machine."""
STORE_SECONDS_MAX = 15.0
SINK_SECONDS_MAX = 15.0

_SQL = named_sql("icecore", "doctor.sql")

Status = Literal["ok", "warning", "failed"]
Report = Callable[[str, Status, str], None]


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check. A server starts despite warnings. A failure prevents it or a part of it."""

    name: str
    status: Status
    message: str


def doctor(load: Callable[[], Settings], console: Console, *, as_json: bool) -> ExitCode:
    """Prints each check when it ends, or all of them as one JSON array. The exit code is 1 if a check failed. `load` reads the settings."""
    found: list[Check] = []

    def report(name: str, status: Status, message: str) -> None:
        found.append(Check(name, status, message))
        if not as_json:
            console.out(f"{status:7}  {name}: {message}", highlight=False)

    _check(load, report)
    if as_json:
        console.out(orjson.dumps(found).decode(), highlight=False)
    return ExitCode.NO if any(check.status == "failed" for check in found) else ExitCode.OK


def _check(load: Callable[[], Settings], report: Report) -> None:
    """Checks that depend on a failed check are left out."""
    try:
        settings = load()
        check_address(settings)
    except SettingsError as error:
        return report("settings", "failed", str(error))
    report("settings", "ok", f"{len(settings.sinks)} sinks, {len(settings.hooks)} hooks")
    for name, failure in hook_failures(settings).items():
        report(f"hook {name}", "ok" if failure is None else "failed", failure or "can be created")
    server = None
    try:
        if settings.database_url is None:
            folder = DataFolder.existing(settings.data_dir)
            server = folder.running_server()
            report("data folder", "ok", f"{folder.path}, {'served' if server else 'not served'} now")
    except CommandFailed as failure:
        return report("data folder", "failed", str(failure))
    refused = address_failure(settings)
    if refused is None:
        report("address", "ok", f"a server can listen at {local_url(settings.host, settings.port)}")
    elif refused.code == ExitCode.BUSY and server is not None:
        report("address", "ok", f"the server of the data folder listens at {server.url}")
        refused = None
    elif refused.code != ExitCode.BUSY or settings.database_url is None:
        report("address", "failed", str(refused))
        refused = None
    try:
        with opened_database(settings, makes_key=False) as opened:
            uvloop.run(_check_opened(opened, refused, report))
    except CommandFailed as failure:
        report("database", "failed", str(failure))
    return None


async def _check_opened(settings: Settings, busy: CommandFailed | None, report: Report) -> None:
    """busy -- the error of a port that may be in use by a server of this catalog."""
    with noticed("the database"):
        server = await (check_read_only_database(settings) if settings.read_only else check_database(settings))
    weak = f"; acknowledged commits can be lost in a crash: {', '.join(server.weak)}" if server.weak else ""
    report("database", "warning" if weak else "ok", f"Postgres {server.version} at {database_address(settings.dsn)}{weak}")
    try:
        await require_schema(settings)
    except CommandFailed as failure:
        return report("schema", "failed", str(failure))
    report("schema", "ok", "has the migrations of this version, and no later ones")
    async with await connect(settings.dsn, prepare_threshold=0, application_name="icecore-doctor") as connection:
        await _check_role(settings, connection, report)
        await _check_clock(connection, report)
        if busy is not None:
            await _check_listening_server(settings, busy, connection, report)
    if lacks_key(settings) and stored_credentials(settings.dsn) == 0:
        # Warehouses are not opened without a key, and doctor makes none.
        missing = settings.secret_key_file
        report("secret key", "warning", f"{missing} is missing, and no credential is stored: the next command makes it")
    else:
        try:
            secret_store(settings)
        except SettingsError as error:
            return report("secret key", "failed", str(error))
        # The hooks are not needed, and one that cannot be created has been reported.
        async with open_catalog(settings.model_copy(update={"hooks": {}})) as catalog:
            await _check_warehouses(catalog, report)
    if not settings.read_only:
        await _check_sinks(settings, report)
    return None


async def _check_role(settings: Settings, connection: Connection, report: Report) -> None:
    row = await (await connection.execute(_SQL["role"])).fetchone()
    assert row is not None
    role, may_append, writes_refused = row
    if writes_refused and not settings.read_only:
        message = f"Postgres accepts no writes: default_transaction_read_only is on for {role}, the database or the server"
        return report("role", "failed", message)
    if not may_append:
        return report("role", "failed", f"{role} may not append events: run `icecore migrate` with ICECORE_DATABASE_OWNER_URL")
    if settings.database_owner_url is None:
        if await role_owns(connection, role):
            return report("role", "warning", f"{role} owns the schema and could change events: see 'Database roles' in the documentation")
        return report("role", "ok", f"{role} serves and does not own the schema; `icecore migrate` needs ICECORE_DATABASE_OWNER_URL")
    try:
        await check_owner(settings.dsn, settings.owner_dsn)
        async with await connect(settings.owner_dsn, prepare_threshold=0, application_name="icecore-doctor") as owning:
            owner = owning.info.user
            owns = await role_owns(owning, owner)
    except UnfitServerError as error:
        return report("role", "failed", str(error))
    except psycopg.Error as error:
        reason = client_error_text(error, database_address(settings.owner_dsn))
        return report("role", "failed", f"ICECORE_DATABASE_OWNER_URL: the database cannot be reached: {reason}")
    if not owns:
        return report("role", "failed", f"{owner} of ICECORE_DATABASE_OWNER_URL does not own the schema icecore: name the role that does")
    return report("role", "ok", f"{role} serves, {owner} owns the schema")


async def _check_listening_server(settings: Settings, busy: CommandFailed, connection: Connection, report: Report) -> None:
    if await read_server_id(connection) == await listening_server_id(settings):
        report("address", "ok", f"a server of this catalog listens at {local_url(settings.host, settings.port)}")
    else:
        report("address", "failed", str(busy))


async def _check_clock(connection: Connection, report: Report) -> None:
    before = datetime.now(UTC)
    row = await (await connection.execute(_SQL["clock"])).fetchone()
    after = datetime.now(UTC)
    assert row is not None
    # The database's time was read at some moment between the two.
    ahead = max((row[0] - after).total_seconds(), 0.0) or min((row[0] - before).total_seconds(), 0.0)
    if abs(ahead) > CLOCK_SECONDS_MAX:
        where = "ahead of" if ahead > 0 else "behind"
        message = (
            f"the database is {abs(ahead):.1f} s {where} this machine: synchronize both clocks; stores reject requests with a wrong time"
        )
        return report("clock", "warning", message)
    return report("clock", "ok", f"within {CLOCK_SECONDS_MAX:.0f} s of the database")


async def _check_warehouses(catalog: Application, report: Report) -> None:
    async with catalog.backends.connection() as connection:
        found = [as_warehouse(state, None) for state in await warehouses.read_all_projects(connection)]
        refusal = None
        try:
            await count_unreadable(connection, catalog.commands.secrets)
        except SettingsError as error:
            refusal = str(error)
    unreadable: dict[UUID, tuple[str, str]] = {}
    for warehouse in found:
        try:
            if warehouse.secret_ref is not None:
                await catalog.backends.credential(warehouse.project_id, warehouse.secret_ref)
        except SecretUnreadable as error:
            unreadable[warehouse.id] = (warehouse.name, error.message)
    if refusal is not None:
        report("secret key", "failed", refusal)
    elif unreadable:
        name, reason = next(iter(unreadable.values()))
        message = (
            f"{len(unreadable)} of the warehouses' credentials cannot be read, first that of {name}: {reason}. Set the key they were "
            "written with: ICECORE_SECRET_KEY_FILE, or ICECORE_SECRET_KEY_FILES_PREVIOUS for an older one"
        )
        report("secret key", "failed", message)
    else:
        report("secret key", "ok", f"reads {sum(each.secret_ref is not None for each in found)} credentials of warehouses")
    for warehouse in found:
        if warehouse.id not in unreadable:
            await _check_store(catalog, warehouse, report)


async def _check_store(catalog: Application, warehouse: Warehouse, report: Report) -> None:
    name = f"warehouse {warehouse.name}"
    try:
        with noticed(f"the store of the {name}, at most {STORE_SECONDS_MAX:.0f} s"):
            async with asyncio.timeout(STORE_SECONDS_MAX):
                await (await catalog.backends.store(warehouse)).check_readable()
    except TimeoutError:
        report(
            name,
            "failed",
            f"{warehouse.profile.base}{at_endpoint(warehouse.profile.endpoint_url)} did not respond within {STORE_SECONDS_MAX:.0f} s: "
            "check the store and the network",
        )
    except CatalogError as error:
        report(name, "failed", error.message)
    else:
        report(name, "ok", f"{warehouse.profile.base} can be listed")


async def _check_sinks(settings: Settings, report: Report) -> None:
    try:
        makers = sink_makers(settings)
    except SettingsError as error:
        return report("sinks", "failed", str(error))
    async with await connect(settings.dsn, prepare_threshold=0, application_name="icecore-doctor") as connection:
        known = {status.name: status for status in await checkpoints.sink_statuses(connection)}
    for name, make in makers.items():
        status = known.get(name)
        if status is not None and status.led:
            row = sink_row(name, status, status.head, configured=True)
            message = "; ".join(row["problems"]) or f"published by {status.leader}, {row['lag-events']} events behind"
            report(f"sink {name}", "failed" if row["problems"] else "ok", message)
        else:
            await _check_sink(settings, name, make, report)
    return None


async def _check_sink(settings: Settings, name: str, make: Callable[[], Sink], report: Report) -> None:
    """Opens and closes the sink while holding the lock of its leader."""
    sink: Sink | None = None
    configured = settings.sinks[name]
    try:
        with noticed(f"the sink {name}, at most {SINK_SECONDS_MAX:.0f} s"):
            async with checkpoints.locked(settings.dsn, name) as connection, asyncio.timeout(SINK_SECONDS_MAX):
                if connection is not None:
                    sink = make()
                    await sink.open()
                    if isinstance(configured, WebhookSink):
                        await _connect(configured.url)
    except TimeoutError:
        report(f"sink {name}", "failed", f"did not respond within {SINK_SECONDS_MAX:.0f} s: check its address and the network")
    except SinkError as error:
        report(f"sink {name}", "failed", str(error))
    except Exception as error:
        # Formatted as the publisher does, because the text of other errors may contain data of clients.
        report(f"sink {name}", "failed", client_error_text(error))
    else:
        message = (
            "another process is starting to publish to it" if sink is None else "can be opened; no process publishes to it at the moment"
        )
        report(f"sink {name}", "ok", message)
    finally:
        if sink is not None:
            await sink.close()


async def _connect(url: str) -> None:
    """Checks only that the webhook's host accepts connections. A request would need an event."""
    parts = urlsplit(url)
    try:
        _, writer = await asyncio.open_connection(parts.hostname, parts.port or (443 if parts.scheme == "https" else 80))
    except OSError as error:
        raise SinkError(f"the endpoint did not respond: {client_error_text(error, address_of(url))}") from None
    with closing(writer):
        pass

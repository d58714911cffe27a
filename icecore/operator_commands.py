"""Commands for operators. They use the database directly and work with or without a running server."""

import asyncio
import re
import signal
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import aiohttp
import orjson
import structlog
import uvloop
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.progress import Progress

from .asynchronous_projections import PROJECTIONS, rebuild_projection
from .commands.warehouses.create_warehouse import CreateWarehouse, create_warehouse
from .commands.warehouses.update_warehouse_config import update_warehouse_config
from .compose import open_catalog
from .data_folder import DataFolder
from .database.connections import Connection
from .demo_warehouse import operator_context
from .domain.client_errors import client_error_text
from .domain.project import PROJECT_ID_DEFAULT
from .domain.warehouse_config import UpdateWarehouseConfig
from .exit_codes import CommandFailed, ExitCode
from .listening import check_address, listen_for_metrics, local_url
from .log_database import (
    opened_database,
    owner_required,
    prepare_database,
    require_same_database,
    require_schema,
    require_sessions,
    require_writable,
)
from .metrics_port import metrics_port
from .open_warehouse import open_warehouse
from .projections import projects
from .projections.rebuild import RebuildRunningError, rebuild_on_every_core
from .projections.verify import verify as verify_log
from .projections.watch import Watch
from .queries.load_warehouse import list_warehouses as load_warehouses
from .queries.load_warehouse import load_config
from .secret_keys import check_secret_keys, count_unreadable, secret_store
from .server import stop_on_signals
from .settings import DATA_DIRECTORY_DEFAULT, Settings
from .storage.profiles import parse_storage_profile
from .storage.store_checks import StoreCheck
from .worker import run_worker

_log = structlog.get_logger("icecore.worker")

HEALTH_SECONDS_MAX = 5.0
JSON_FILE_BYTES_MAX = 1024 * 1024


def migrate(settings: Settings, console: Console, *, as_json: bool) -> ExitCode:
    """Applies migrations. A data folder without a catalog is refused: the setting of the database may have been forgotten."""
    with opened_database(settings) as opened:
        applied = uvloop.run(prepare_database(opened))
    message = "\n".join(f"applied {name}" for name in applied) or "nothing to apply: the schema is up to date"
    print_report(console, {"applied": applied} if as_json else message)
    return ExitCode.OK


def rebuild(settings: Settings, console: Console, *, as_json: bool) -> ExitCode:
    """Computes a new generation of the read models from the log and switches to it. Writes continue meanwhile."""
    with opened_database(settings) as opened:
        uvloop.run(_require_owner(opened))
        try:
            with owner_required(opened, "A rebuild"):
                report = rebuild_on_every_core(opened.owner_dsn, progress("folding the log"))
        except RebuildRunningError as error:
            raise CommandFailed(ExitCode.BUSY, str(error)) from None
    print_report(console, report.to_json() if as_json else str(report))
    return ExitCode.OK


def rebuild_asynchronous(settings: Settings, console: Console, names: Sequence[str], *, as_json: bool) -> ExitCode:
    """Computes asynchronous read models again from the log. Queries read the rows from before until it is done."""
    with opened_database(settings) as opened:
        uvloop.run(_require_owner(opened))
        with owner_required(opened, "A rebuild"):
            positions = {each.name: rebuild_projection(opened.owner_dsn, each) for each in PROJECTIONS if each.name in names}
    message = "\n".join(f"{name} rebuilt up to position {position}" for name, position in positions.items())
    print_report(console, positions if as_json else message)
    return ExitCode.OK


async def _require_owner(settings: Settings) -> None:
    await require_writable(settings)
    await require_same_database(settings)


def work(settings: Settings) -> ExitCode:
    """Runs a worker without a server, until SIGTERM or Ctrl-C."""

    if settings.read_only:
        raise CommandFailed(ExitCode.USAGE, "ICECORE_READ_ONLY is set: a worker writes to the database, so run it on the primary")

    async def run(opened: Settings) -> None:
        await require_sessions(opened)
        await require_writable(opened)
        secrets = secret_store(opened)
        await check_secret_keys(opened, secrets)
        stop = asyncio.Event()
        stop_on_signals(stop, signal.SIGTERM, signal.SIGINT)
        _log.info("worker_started", sinks=sorted(opened.sinks))
        await run_worker(opened, secrets, stop, metrics_port(opened, listening, "worker"))
        _log.info("stopped")

    if settings.metrics_port is not None:
        check_address(settings)
    with listen_for_metrics(settings.host, settings.metrics_port) as listening, opened_database(settings) as opened:
        uvloop.run(run(opened))
    return ExitCode.OK


def verify(settings: Settings, console: Console, *, as_json: bool) -> ExitCode:
    """Compares the log with every read model and claim, and checks the hash chain. Writes continue meanwhile."""
    with opened_database(settings) as opened:
        uvloop.run(require_schema(opened))
        with progress("comparing with the log") as watch:
            report = uvloop.run(verify_log(opened.dsn, admin_roles=settings.admin_roles, watch=watch))
    print_report(console, report.to_json() if as_json else str(report))
    return ExitCode.OK if report.ok else ExitCode.NO


def list_warehouses(settings: Settings, console: Console, project: str | None, statuses: Collection[str], *, as_json: bool) -> ExitCode:
    """Lists the warehouses of a project (None: the default one) with their locations, or as JSON as the management API does. Shows no
    credential.
    """

    async def run(opened: Settings) -> list[dict[str, Any]]:
        await require_schema(opened)
        async with open_catalog(opened) as catalog:
            async with catalog.backends.connection() as connection:
                context = operator_context("listWarehouses", await named_project_id(connection, project))
            return await load_warehouses(catalog.queries, context, statuses)

    with opened_database(settings) as opened:
        found = uvloop.run(run(opened))
    if as_json:
        console.out(orjson.dumps(found).decode(), highlight=False)
        return ExitCode.OK
    if not found:
        console.print("no warehouses; create one with: icecore warehouse create NAME --profile JSON", markup=False, soft_wrap=True)
        return ExitCode.OK
    rows = [("name", "id", "status", "storage")]
    rows += [(each["name"], each["id"], each["status"], str(parse_storage_profile(each["storage-profile"]).base)) for each in found]
    width = max(cell_len(name) for name, *_ in rows)
    for name, warehouse_id, status, storage in rows:
        # Lines are not wrapped, so that ids and locations can be copied.
        console.out(f"{set_cell_size(name, width)}  {warehouse_id:36}  {status:8}  {storage}", highlight=False)
    return ExitCode.OK


def make_warehouse(settings: Settings, console: Console, command: CreateWarehouse, project: str | None, *, as_json: bool) -> ExitCode:
    """Creates a warehouse in a project (None: the default one) as the management API does, and prints its id, or all of it as JSON. Checks
    and warnings are printed to standard error.
    """

    async def run(opened: Settings) -> dict[str, Any]:
        await require_writable(opened)
        async with open_catalog(opened) as catalog:
            async with catalog.backends.connection() as connection:
                if command.storage_credential is not None:
                    await count_unreadable(connection, catalog.commands.secrets)
                context = operator_context("createWarehouse", await named_project_id(connection, project))
            response = await create_warehouse(catalog.commands, context, command, on_check=print_check)
        assert isinstance(response.body, bytes), "the response of a new warehouse is one bytes object"
        created: dict[str, Any] = orjson.loads(response.body)
        return created

    with opened_database(settings) as opened:
        created = uvloop.run(run(opened))
    print_warnings(created)
    print_report(console, created if as_json else {"warehouse-id": created["warehouse-id"]})
    return ExitCode.OK


async def named_project_id(connection: Connection, project: str | None) -> UUID:
    """The id of a project by its id or name; None: the default one. Raises NoSuchProject."""
    return PROJECT_ID_DEFAULT if project is None else (await projects.find_named(connection, project)).id


def print_check(check: StoreCheck) -> None:
    result = "ok" if check.failure is None else "failed"
    Console(stderr=True).out(f"{check.name:6}  {result:6}  {check.seconds:.3f} s", highlight=False)


def print_warnings(warehouse: dict[str, Any]) -> None:
    for warning in warehouse.get("warnings", []):
        Console(stderr=True).out(f"warning: {warning}", highlight=False)


def configure_warehouse(settings: Settings, console: Console, reference: str, command: UpdateWarehouseConfig, *, as_json: bool) -> ExitCode:
    """Changes the configuration of a warehouse as the management API does, and prints the result. Without changes, it is only shown.

    Keys to remove that are not there are named on standard error.
    """
    missing: list[str] = []

    async def run(opened: Settings) -> dict[str, dict[str, str]]:
        changes = any(each.updates or each.removals for each in (command.defaults, command.overrides))
        await (require_writable(opened) if changes else require_schema(opened))
        async with open_warehouse(opened, reference) as (catalog, warehouse):
            if warehouse.as_of is not None:
                raise CommandFailed(
                    ExitCode.USAGE, "a past state has the current configuration; name the warehouse without a position or time"
                )
            context = operator_context("updateWarehouseConfig", warehouse.project_id)
            before = await load_config(catalog.queries, operator_context("getConfig", warehouse.project_id), warehouse)
            if not changes:
                # A command would write a row if commits wait for a standby.
                return before.to_json()
            response = await update_warehouse_config(catalog.commands, context, warehouse, command)
        assert isinstance(response.body, bytes), "the response is one bytes object"
        for kind, update, had in (("default", command.defaults, before.defaults), ("override", command.overrides, before.overrides)):
            missing.extend(f"no such {kind}: {key}" for key in update.removals if key not in had)
        found: dict[str, dict[str, str]] = orjson.loads(response.body)
        return found

    with opened_database(settings) as opened:
        found = uvloop.run(run(opened))
    for line in missing:
        Console(stderr=True).out(line, highlight=False)
    if as_json:
        print_report(console, found)
        return ExitCode.OK
    if not any(found.values()):
        console.out("no defaults, no overrides", highlight=False)
    for kind, properties in found.items():
        for key, value in properties.items():
            console.out(f"{kind.removesuffix('s'):8}  {key}={value}", highlight=False)
    return ExitCode.OK


def health(settings: Settings, console: Console, url: str | None, *, data: Path | None = None) -> ExitCode:
    """Checks the health of the server at `url`, else of the one that serves the data folder, else at host and port of the settings.

    data -- the data folder of the command line. If it or ICECORE_DATA_DIR is given, no server of another folder is asked.
    """
    target = url or _serving_url(settings, data) or local_url(settings.host, settings.port)
    shown = _without_user(target)
    if not _is_http_url(target):
        raise CommandFailed(ExitCode.USAGE, f"{shown} is not an http or https URL")

    async def run() -> tuple[int, str]:
        timeout = aiohttp.ClientTimeout(total=HEALTH_SECONDS_MAX)
        async with aiohttp.ClientSession(timeout=timeout) as session, session.get(f"{target.rstrip('/')}/health") as response:
            return response.status, await response.text()

    try:
        status, body = asyncio.run(run())
    except (aiohttp.ClientError, TimeoutError) as error:
        raise CommandFailed(
            ExitCode.NO, f"{shown} does not respond: {client_error_text(error)}; is `icecore serve` running there?"
        ) from None
    console.out(body, highlight=False)
    return ExitCode.OK if status == 200 else ExitCode.NO


def _is_http_url(text: str) -> bool:
    try:
        return urlsplit(text).scheme in ("http", "https")
    except ValueError:
        return False


def _without_user(url: str) -> str:
    """The URL without user and password, also if they contain a slash."""
    return re.sub(r"(?<=://).*@", "", url)


def json_argument(text: str, what: str) -> Any:
    """The value of an option that takes JSON, `@FILE` or `-` (standard input), so that a credential need not be on the command line."""
    try:
        if text.startswith("@"):
            with Path(text[1:]).open("rb") as file:
                return orjson.loads(file.read(JSON_FILE_BYTES_MAX))
        if text == "-":
            with Path("/dev/stdin").open("rb") as file:
                return orjson.loads(file.read(JSON_FILE_BYTES_MAX))
        return orjson.loads(text)
    except OSError as error:
        # The argument may be the credential itself, which is not shown.
        named = what if what == "--credential" or text == "-" else f"{what}: {text[1:]}"
        raise CommandFailed(ExitCode.USAGE, f"{named} cannot be read: {error.strerror}") from None
    except orjson.JSONDecodeError as error:
        # A path is not repeated either: it may be the credential.
        hint = "" if text.startswith(("@", "-", "{")) else f"; {what} @FILE reads a file"
        raise CommandFailed(ExitCode.USAGE, f"{what} is not JSON: {error.msg}{hint}") from None


def profile_argument(text: str) -> Any:
    """The value of `--profile`: the storage profile alone."""
    profile = json_argument(text, "--profile")
    if isinstance(profile, dict) and "storage-profile" in profile:
        raise CommandFailed(ExitCode.USAGE, "--profile must be the storage profile alone, not the request with the member storage-profile")
    return profile


def properties_argument(texts: Sequence[str], option: str) -> dict[str, str]:
    """The properties of an option that takes KEY=VALUE, repeated."""
    properties: dict[str, str] = {}
    for text in texts:
        key, separator, value = text.partition("=")
        if not separator:
            raise CommandFailed(ExitCode.USAGE, f"{option} must be KEY=VALUE: {key!r} has no '='")
        if key in properties:
            raise CommandFailed(ExitCode.USAGE, f"{option} names {key!r} twice")
        properties[key] = value
    return properties


def print_report(console: Console, report: str | dict[str, Any]) -> None:
    """Prints without markup, because keys and values contain square brackets."""
    console.out(report if isinstance(report, str) else orjson.dumps(report).decode(), highlight=False)


@contextmanager
def progress(what: str) -> Iterator[Watch]:
    """Shows a progress bar while the block runs, if standard error is a terminal."""
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(bar, completed=done, total=total)


def _serving_url(settings: Settings, data: Path | None) -> str | None:
    if settings.database_url is not None:
        return None
    server = DataFolder(settings.data_dir.resolve()).running_server()
    if server is None and (data is not None or settings.data_dir != DATA_DIRECTORY_DEFAULT):
        message = f"No server runs with the data folder {settings.data_dir}: give the folder of one by --data, or its URL by --url"
        raise CommandFailed(ExitCode.NO, message)
    return None if server is None else server.url

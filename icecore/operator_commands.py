"""Commands of operators, on the database itself, whether or not a server runs."""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import orjson
import psycopg
import structlog
import uvloop
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.progress import Progress

from .access.request_context import PROJECT_ID_DEFAULT
from .commands.warehouses.create_warehouse import CreateWarehouse, create_warehouse
from .compose import open_catalog
from .data_folder import DataFolder
from .demo_warehouse import operator_context
from .domain.client_errors import client_error_text
from .exit_codes import CommandFailed, ExitCode
from .log_database import opened_database, prepare_database, require_schema
from .projections import statistics, warehouses
from .projections.rebuild import RebuildRunningError, rebuild_on_every_core
from .projections.verify import verify as verify_log
from .projections.watch import Watch
from .secret_keys import check_secret_keys
from .server import stop_on_signals
from .settings import Settings
from .storage.profiles import parse_storage_profile
from .storage.store_checks import StoreCheck
from .worker import run_worker

_log = structlog.get_logger("icecore.worker")

HEALTH_SECONDS_MAX = 5.0
JSON_FILE_BYTES_MAX = 1024 * 1024


def migrate(settings: Settings, console: Console, *, as_json: bool) -> ExitCode:
    """Brings the database up to this code, or begins one in the data folder."""
    with opened_database(settings, make=True) as opened:
        applied = uvloop.run(prepare_database(opened))
    said = "\n".join(f"applied {name}" for name in applied) or "nothing to apply: the schema is up to date"
    _print_report(console, {"applied": applied} if as_json else said)
    return ExitCode.OK


def rebuild(settings: Settings, console: Console, *, as_json: bool) -> ExitCode:
    """Folds the whole log into a new generation of the read models and switches to it; writes go on."""
    with opened_database(settings) as opened:
        uvloop.run(require_schema(opened))
        try:
            with _progress("folding the log") as watch:
                report = rebuild_on_every_core(opened.owner_dsn, watch)
        except psycopg.errors.InsufficientPrivilege:
            raise CommandFailed(ExitCode.DATABASE, "A rebuild needs the owner of the schema: set ICECORE_DATABASE_OWNER_URL") from None
        except RebuildRunningError as error:
            raise CommandFailed(ExitCode.BUSY, str(error)) from None
    _print_report(console, report.to_json() if as_json else str(report))
    return ExitCode.OK


def reset_statistics(settings: Settings, console: Console, *, as_json: bool) -> ExitCode:
    """Removes the statistics; the worker counts them again from the first event."""
    with opened_database(settings) as opened:
        uvloop.run(require_schema(opened))
        try:
            uvloop.run(statistics.reset_statistics(opened.owner_dsn))
        except psycopg.errors.InsufficientPrivilege:
            raise CommandFailed(ExitCode.DATABASE, "Deleting statistics needs the schema owner: set ICECORE_DATABASE_OWNER_URL") from None
    said = "statistics deleted; the worker counts them again from the first event"
    _print_report(console, {"statistics": "deleted"} if as_json else said)
    return ExitCode.OK


def work(settings: Settings) -> ExitCode:
    """A worker without a server, until SIGTERM or Ctrl-C."""

    async def run(opened: Settings) -> None:
        await require_schema(opened)
        await check_secret_keys(opened)
        stop = asyncio.Event()
        stop_on_signals(stop, signal.SIGTERM, signal.SIGINT)
        _log.info("worker_started", sinks=sorted(opened.sinks))
        await run_worker(opened, stop)
        _log.info("stopped")

    with opened_database(settings) as opened:
        uvloop.run(run(opened))
    return ExitCode.OK


def verify(settings: Settings, console: Console, *, as_json: bool) -> ExitCode:
    """Folds the log, compares it with every read model and claim, and checks the chain of hashes; writes go on."""
    with opened_database(settings) as opened:
        uvloop.run(require_schema(opened))
        with _progress("comparing with the log") as watch:
            report = uvloop.run(verify_log(opened.dsn, admin_roles=settings.admin_roles, watch=watch))
    _print_report(console, report.to_json() if as_json else str(report))
    return ExitCode.OK if report.ok else ExitCode.NO


def list_warehouses(settings: Settings, console: Console, *, as_json: bool) -> ExitCode:
    """Every warehouse with its place in storage, as JSON its whole profile; credentials are never shown."""

    async def run(opened: Settings) -> list[dict[str, Any]]:
        await require_schema(opened)
        async with open_catalog(opened) as catalog, catalog.backends.connection() as connection:
            found = await warehouses.read_all(connection, PROJECT_ID_DEFAULT)
        return [{"id": str(each.id), "name": each.name, "storage-profile": each.storage_profile} for each in found]

    with opened_database(settings) as opened:
        found = uvloop.run(run(opened))
    if as_json:
        console.out(orjson.dumps(found).decode(), highlight=False)
        return ExitCode.OK
    if not found:
        console.print("no warehouses; create one with: icecore warehouse create NAME --profile JSON", markup=False, soft_wrap=True)
        return ExitCode.OK
    rows = [("name", "id", "storage")]
    rows += [(each["name"], each["id"], str(parse_storage_profile(each["storage-profile"]).base)) for each in found]
    width = max(cell_len(name) for name, _, _ in rows)
    for name, warehouse_id, storage in rows:
        # In lines of any length: an id or a place that is cut or folded cannot be copied.
        console.out(f"{set_cell_size(name, width)}  {warehouse_id:36}  {storage}", highlight=False)
    return ExitCode.OK


def make_warehouse(settings: Settings, console: Console, command: CreateWarehouse) -> ExitCode:
    """Creates a warehouse as the management API does; each check of its store is a line on standard error."""
    progress = Console(stderr=True)

    def on_check(check: StoreCheck) -> None:
        progress.out(f"{check.name:6}  {'ok' if check.failure is None else 'failed':6}  {check.seconds:.3f} s", highlight=False)

    async def run(opened: Settings) -> bytes:
        await require_schema(opened)
        async with open_catalog(opened) as catalog:
            answer = await create_warehouse(catalog.commands, operator_context("createWarehouse"), command, on_check=on_check)
        assert isinstance(answer.body, bytes), "a warehouse is described at once"
        return orjson.dumps({"warehouse-id": orjson.loads(answer.body)["warehouse-id"]})

    with opened_database(settings) as opened:
        body = uvloop.run(run(opened))
    console.out(body.decode(), highlight=False)
    return ExitCode.OK


def health(settings: Settings, console: Console, url: str | None) -> ExitCode:
    """Asks a running server how it is: the one at `url`, else the one that serves the data folder, else host and port."""
    asked = url or _serving_url(settings) or f"http://{settings.host}:{settings.port}"
    if urlsplit(asked).scheme not in ("http", "https"):
        raise CommandFailed(ExitCode.USAGE, f"{asked} is not an http or https URL")

    async def run() -> tuple[int, str]:
        timeout = aiohttp.ClientTimeout(total=HEALTH_SECONDS_MAX)
        async with aiohttp.ClientSession(timeout=timeout) as session, session.get(f"{asked.rstrip('/')}/health") as answer:
            return answer.status, await answer.text()

    try:
        status, body = asyncio.run(run())
    except (aiohttp.ClientError, TimeoutError) as error:
        raise CommandFailed(
            ExitCode.NO, f"{asked} does not answer: {client_error_text(error)}; is `icecore serve` running there?"
        ) from None
    console.out(body, highlight=False)
    return ExitCode.OK if status == 200 else ExitCode.NO


def json_argument(text: str, what: str) -> Any:
    """The value of an option that takes JSON, `@FILE` or `-` (standard input): a credential need not stand on the command line."""
    try:
        if text.startswith("@"):
            with Path(text[1:]).open("rb") as file:
                return orjson.loads(file.read(JSON_FILE_BYTES_MAX))
        if text == "-":
            with Path("/dev/stdin").open("rb") as file:
                return orjson.loads(file.read(JSON_FILE_BYTES_MAX))
        return orjson.loads(text)
    except OSError as error:
        # The path may be the credential itself.
        raise CommandFailed(ExitCode.USAGE, f"{what} cannot be read: {type(error).__name__}") from None
    except orjson.JSONDecodeError as error:
        raise CommandFailed(ExitCode.USAGE, f"{what} is not JSON: {error.msg}") from None


def _print_report(console: Console, report: str | dict[str, Any]) -> None:
    """As plain text, not markup: keys and values stand in square brackets."""
    console.out(report if isinstance(report, str) else orjson.dumps(report).decode(), highlight=False)


@contextmanager
def _progress(what: str) -> Iterator[Watch]:
    """A bar on the terminal of standard error while the block runs; nothing where it is none."""
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(bar, completed=done, total=total)


def _serving_url(settings: Settings) -> str | None:
    if settings.database_url is not None:
        return None
    serving = DataFolder(settings.data_dir.resolve()).serving()
    return None if serving is None else serving.url

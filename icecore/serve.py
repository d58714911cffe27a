"""`icecore serve`: prepares the database and serves, alone or with several processes, until it is stopped."""

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Callable

import psycopg
import structlog
import uvloop

from .data_folder import Claim, DataFolder
from .demo_warehouse import ensure_demo_warehouse
from .embedded_postgres import restarted_on_failure
from .exit_codes import CommandFailed, ExitCode
from .hooks import check_hooks
from .listening import check_address, listen, listen_for_metrics, spread, url_of
from .log_database import opened_database, prepare_database, require_readable
from .metrics import ServeMetrics, read_process, shown_metrics
from .metrics_port import metrics_port
from .secret_keys import check_secret_keys, secret_store
from .security.secrets import SecretStore
from .server import run_server, stop_on_signals
from .settings import Settings
from .sinks import sink_makers
from .supervisor import serving_processes, supervise
from .welcome import print_welcome
from .worker import worker_beside

_log: structlog.stdlib.BoundLogger = structlog.get_logger("icecore.serve")


def serve(settings: Settings) -> None:
    """Runs until SIGTERM or SIGINT. Raises CommandFailed or SettingsError if it cannot start."""
    _check_settings(settings)
    if os.geteuid() == 0:
        _log.warning("running_as_root", advice="use an unprivileged account: a fault in the server could damage the whole machine")
    embedded = settings.database_url is None
    with contextlib.ExitStack() as opened:
        listening, metrics = _open_ports(settings, opened)
        claim = opened.enter_context(DataFolder.make(settings.data_dir).claimed()) if embedded else None
        settings = opened.enter_context(opened_database(settings, make=True))
        # Read once. Processes that are started again have the same keys, whatever became of the files.
        secrets = secret_store(settings)
        if settings.read_only:
            uvloop.run(require_readable(settings))
            uvloop.run(check_secret_keys(settings, secrets))
        else:
            _migrate(settings, secrets)
        if embedded:
            uvloop.run(ensure_demo_warehouse(settings))
        announce = _announcement(settings, url_of(listening), claim)
        uvloop.run(_serve(settings, secrets, listening, metrics, announce, embedded=embedded))
        _log.info("stopped")


def _check_settings(settings: Settings) -> None:
    """Raises SettingsError for all that can be found without the database, which an older version cannot serve once it is migrated."""
    check_address(settings)
    check_hooks(settings)
    if settings.worker_beside_server and not settings.read_only:
        sink_makers(settings)
    if settings.database_url is not None or settings.secret_key is not None or settings.secret_key_file is not None:
        # Otherwise the key is in the data folder.
        secret_store(settings)


def _migrate(settings: Settings, secrets: SecretStore) -> None:
    """Applies migrations, unless the secret keys are those of another database."""
    is_checked = False
    # A database that is new, or gives the role no privileges yet, is checked after the migrations.
    with contextlib.suppress(psycopg.errors.UndefinedTable, psycopg.errors.InsufficientPrivilege):
        uvloop.run(check_secret_keys(settings, secrets))
        is_checked = True
    for name in uvloop.run(prepare_database(settings)):
        _log.info("migration_applied", migration=name)
    if not is_checked:
        uvloop.run(check_secret_keys(settings, secrets))


def _open_ports(settings: Settings, opened: contextlib.ExitStack) -> tuple[socket.socket, socket.socket | None]:
    """Opens the ports before a data folder is created. Raises CommandFailed if one is taken, or if the data folder is served already."""
    try:
        listening = opened.enter_context(contextlib.closing(listen(settings.host, settings.port)))
        return listening, opened.enter_context(listen_for_metrics(settings.host, settings.metrics_port))
    except CommandFailed:
        # A second server on the folder has the first one's port in its settings. The message on the folder names that server.
        if settings.database_url is None:
            DataFolder(settings.data_dir.resolve()).refuse_served()
        raise


async def _serve(
    settings: Settings,
    secrets: SecretStore,
    listening: socket.socket,
    metrics: socket.socket | None,
    announce: Callable[[], None],
    *,
    embedded: bool,
) -> None:
    """Runs the server or its serving processes, the worker, and the watch of an embedded Postgres."""
    stop = asyncio.Event()
    stop_on_signals(stop, signal.SIGTERM, signal.SIGINT)
    watched = restarted_on_failure(settings.data_dir, stop, state_directory=settings.embedded_state_dir)
    async with worker_beside(settings, secrets) as worker, watched if embedded else contextlib.nullcontext():
        if settings.workers == 1:
            await _serve_alone(settings, secrets, listening, metrics_port(settings, metrics, "serving-1", [worker]), announce, stop)
            return
        sockets = spread(listening, settings.workers)
        processes = serving_processes(settings, secrets, sockets)
        async with shown_metrics(metrics_port(settings, metrics, "supervisor", [*processes, worker]), read_process):
            await supervise(processes, sockets, announce, stop)


async def _serve_alone(
    settings: Settings,
    secrets: SecretStore,
    listening: socket.socket,
    metrics: ServeMetrics | None,
    announce: Callable[[], None],
    stop: asyncio.Event,
) -> None:
    try:
        await run_server(settings, secrets, listening, ready=announce, stop=stop, metrics=metrics)
    except OSError as error:
        raise CommandFailed(ExitCode.CRASHED, f"The server could not start: {error}") from error


def _announcement(settings: Settings, url: str, claim: Claim | None) -> Callable[[], None]:
    """What is done once the server is ready: the address is written to the data folder and the welcome message is printed."""

    def announce() -> None:
        _log.info("serving", url=url, workers=settings.workers)
        if claim is not None:
            claim.write(url)
        print_welcome(settings, url, embedded=claim is not None)

    return announce

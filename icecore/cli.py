"""The command `icecore`: parses arguments and settings, runs one command, and returns its exit code."""

import os
import signal
import sys
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import structlog
from cyclopts import App, CycloptsError, MissingArgumentError, Parameter, RepeatArgumentError, UnknownCommandError, UnusedCliTokensError
from rich.console import Console

from .command_settings import CommonOptions, Flag, Json, WarehouseName, WarehouseOptions
from .domain.errors import CatalogError
from .exit_codes import ENDING_SIGNALS, CommandFailed, ExitCode, SettingsError, exit_by_signal
from .logs import configure_logs, log_uncaught
from .namespace_cli import namespace
from .output import Output
from .pipeline_cli import pipeline
from .project_cli import project
from .secrets_cli import secrets
from .sinks_cli import sinks
from .storage.environment_credentials import remove_environment_credentials
from .table_cli import table
from .task_cli import task
from .version import icecore_version
from .view_cli import view
from .warehouse_cli import warehouse


class _Program(App):
    def install_completion(self, **options: Any) -> Path:
        try:
            return super().install_completion(**options)
        except OSError as error:
            raise CommandFailed(ExitCode.USAGE, f"The completion cannot be installed: {error.filename}: {error.strerror}") from None


app = _Program(
    name="icecore",
    help="An Apache Iceberg REST catalog built on an event log in Postgres.",
    version=icecore_version,
    console=Output(),
)
app.command(project)
app.command(warehouse)
app.command(namespace)
app.command(table)
app.command(view)
app.command(task)
app.command(sinks)
app.command(secrets)
app.command(pipeline)
app.register_install_completion_command(help="Install completion for the shell that runs the command (bash, zsh or fish).")


def main() -> None:
    """Runs the command of this process's arguments, and ends the process with its exit code."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # obstore reads the clouds' environment variables. A warehouse is opened only with its own credential. Child processes inherit this
    # environment.
    remove_environment_credentials()
    # Until the command has read its settings. structlog's own default prints traces with local variables to standard output.
    configure_logs("info", "console")
    log_uncaught()
    for number in ENDING_SIGNALS:
        # `nohup` ignores SIGHUP, which stays ignored.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, exit_by_signal)
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Runs one command and returns the exit code. Errors for the operator are printed to standard error without a trace."""
    try:
        code = app(arguments, exit_on_error=False, print_error=False, result_action="return_value")
    except CycloptsError as error:
        return _failed(ExitCode.USAGE, f"{_said(error)} See icecore {' '.join([*(error.command_chain or ()), '--help'])}")
    except SettingsError as error:
        return _failed(ExitCode.USAGE, str(error))
    except CommandFailed as failure:
        return _failed(failure.code, str(failure))
    except CatalogError as refusal:
        return _failed(ExitCode.USAGE if refusal.status == 400 else ExitCode.NO, refusal.message)
    except BrokenPipeError:
        # The reader (head, less) has closed the pipe. Keeps the interpreter from reporting an error when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.OK
    except Exception as error:
        # A bug: the log redacts secrets in its trace.
        structlog.get_logger("icecore.cli").error("crashed", exc_info=error)
        return ExitCode.CRASHED
    return int(code) if isinstance(code, int) else ExitCode.OK


@app.command
def serve(
    *,
    port: int | None = None,
    host: str | None = None,
    workers: int | None = None,
    insecure: Flag | None = None,
    allowed_hosts: str | None = None,
    options: CommonOptions = CommonOptions(),
) -> ExitCode:
    """Serve the catalog until SIGTERM or Ctrl-C.

    Without settings, it runs an embedded Postgres with a warehouse named demo in the data folder, and listens on 127.0.0.1:8181.

    Parameters
    ----------
    port
        TCP port (ICECORE_PORT; default 8181). 0 picks a free port.
    host
        Address to listen on (ICECORE_HOST; default 127.0.0.1).
    workers
        Number of processes that serve requests, not counting the worker (ICECORE_WORKERS; default 1).
    insecure
        Listen on an address that other machines can reach, although there is no authentication (ICECORE_INSECURE=true).
    allowed_hosts
        Host names that clients use, separated by commas (ICECORE_ALLOWED_HOSTS).
    """
    from .serve import serve as run_serve

    run_serve(options.settings(port=port, host=host, workers=workers, insecure=insecure, allowed_hosts=allowed_hosts))
    return ExitCode.OK


@app.command
def migrate(*, as_json: Json = False, options: CommonOptions = CommonOptions()) -> ExitCode:
    """Apply the migrations of this version to the database. `serve` does this too."""
    from . import operator_commands

    return operator_commands.migrate(options.settings(), Output(), as_json=as_json)


@app.command
def rebuild(*, statistics: Flag = False, search: Flag = False, as_json: Json = False, options: CommonOptions = CommonOptions()) -> ExitCode:
    """Rebuild the read models from the log while the catalog serves.

    Parameters
    ----------
    statistics
        Rebuild only the warehouse statistics.
    search
        Rebuild only the search index.
    """
    from . import operator_commands

    asynchronous = [name for name, chosen in (("statistics", statistics), ("search", search)) if chosen]
    if asynchronous:
        return operator_commands.rebuild_asynchronous(options.settings(), Output(), asynchronous, as_json=as_json)
    return operator_commands.rebuild(options.settings(), Output(), as_json=as_json)


@app.command
def verify(*, as_json: Json = False, options: CommonOptions = CommonOptions()) -> ExitCode:
    """Compare all derived data with the log and check the hash chain. The exit code is 1 if there is a difference."""
    from . import operator_commands

    return operator_commands.verify(options.settings(), Output(), as_json=as_json)


@app.command
def log(
    *,
    follow: Flag = False,
    after: Annotated[int, Parameter(name="--from")] = 1,
    since: str | None = None,
    until: str | None = None,
    table: str | None = None,
    actor: str | None = None,
    limit: int | None = None,
    as_json: Annotated[Json, Parameter(help="Print JSON, one object per line.")] = False,
    cloudevents: Annotated[Flag, Parameter(help="Print CloudEvents as sinks get them, one per line.")] = False,
    options: CommonOptions = CommonOptions(),
) -> ExitCode:
    """Print the events of the log, oldest first.

    Parameters
    ----------
    follow
        Wait for new events until Ctrl-C.
    after
        Print events from this position on.
    since
        Print events recorded at or after this time, RFC 3339 with a time zone.
    until
        Print events recorded at or before this time, RFC 3339 with a time zone.
    table
        Print the events of one table under all its names: [WAREHOUSE:]NAMESPACE.TABLE as it is named now, or its id.
    actor
        Print the events of one actor.
    limit
        Print at most this number of events.
    """
    from .event_lines import print_events
    from .event_selection import EventOptions

    selection = EventOptions(after, since, until, table, actor)
    return print_events(options.settings(), selection, follow=follow, limit=limit, as_json=as_json, as_cloud_events=cloudevents)


@app.command
def undrop(
    warehouse: WarehouseName,
    ids: Annotated[list[UUID], Parameter(negative=())],
    /,
    *,
    force: Flag = False,
    options: WarehouseOptions = WarehouseOptions(),
) -> ExitCode:
    """Undrop soft-deleted tables and views (all or none), or one namespace with everything that was dropped with it.

    Parameters
    ----------
    ids
        Ids of the tables and views, or of the namespace. `icecore table deleted` and `icecore namespace deleted` show them.
    force
        Undrop them without looking for their files, which may be missing.
    """
    from . import deletion_commands

    return deletion_commands.undrop(options.settings(), options.in_project(warehouse), ids, force=force)


@app.command(name="wait-for-db")
def wait_for_db(*, timeout_seconds: float = 60.0, options: CommonOptions = CommonOptions()) -> ExitCode:
    """Wait until the database of ICECORE_DATABASE_URL has the migrations of this version. The exit code is 3 after the timeout.

    Parameters
    ----------
    timeout_seconds
        How long to wait, in seconds.
    """
    from .wait_for_database import wait_for_database

    return wait_for_database(options.settings(), Output(), timeout_seconds)


@app.command
def health(*, url: str | None = None, options: CommonOptions = CommonOptions()) -> ExitCode:
    """Check a running server. The exit code is 1 if it is unhealthy or does not respond.

    Parameters
    ----------
    url
        URL of the server. Default: the server that uses the data folder; if none is given, otherwise the host and port in the settings.
    """
    from . import operator_commands

    return operator_commands.health(options.settings(), Output(), url, data=options.data)


@app.command
def doctor(*, as_json: Json = False, options: CommonOptions = CommonOptions()) -> ExitCode:
    """Check settings, hooks, data folder, address, database, role, schema, clock, secret key, storage and sinks.

    The exit code is 1 if a check fails.
    """
    from .doctor import doctor as run_doctor

    return run_doctor(options.settings, Output(), as_json=as_json)


@app.command
def worker(*, options: CommonOptions = CommonOptions()) -> ExitCode:
    """Publish events, update statistics and run background jobs until SIGTERM or Ctrl-C. `serve` starts a worker by default."""
    from . import operator_commands

    return operator_commands.work(options.settings())


def _said(error: CycloptsError) -> str:
    if isinstance(error, UnusedCliTokensError):
        return f"Unexpected argument: {' '.join(error.unused_tokens or ())}."
    if isinstance(error, UnknownCommandError):
        # The parser names only some of the commands.
        names = (name for name in (error.app or app) if not name.startswith("-"))
        return f"{str(error).partition(' Available commands:')[0]} Available commands: {', '.join(names)}."
    if isinstance(error, MissingArgumentError) and error.argument is not None:
        return f"{error.argument.name} is missing." if error.keyword is None else f"{error.keyword} needs a value."
    if isinstance(error, RepeatArgumentError):
        return f"{error.token.keyword} repeats or contradicts an option before it."
    # Removes the line breaks that the parser adds for terminals.
    return " ".join(str(error).split())


def _failed(code: ExitCode, message: str) -> ExitCode:
    Console(stderr=True, highlight=False, soft_wrap=True).print(f"icecore: {message}", markup=False)
    return code

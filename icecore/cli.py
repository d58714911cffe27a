"""The command `icecore`: parses arguments and settings, runs one command, and ends with its exit code."""

import os
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any

import structlog
from cyclopts import App, CycloptsError, Parameter
from rich.console import Console

from .domain.errors import CatalogError
from .exit_codes import CommandFailed, ExitCode
from .logs import configure_logs_for, log_uncaught
from .settings import Settings, SettingsError, load_settings
from .storage.ambient_credentials import forget_ambient_credentials

Data = Annotated[Path | None, Parameter(name="--data", help="Data folder of the embedded default (ICECORE_DATA_DIR; .icecore here).")]
Config = Annotated[Path | None, Parameter(name="--config", help="Settings file, TOML (ICECORE_CONFIG).")]


def _version() -> str:
    try:
        return version("icecore")
    except PackageNotFoundError:
        return "unknown (not installed)"


app = App(
    name="icecore",
    help="An Apache Iceberg REST catalog that remembers everything: its truth is an event log in Postgres.",
    version=_version,
)
warehouse = App(name="warehouse", help="Create and list warehouses.")
app.command(warehouse)
sinks = App(name="sinks", help="Show the sinks events go out to, and what stands in their way.")
app.command(sinks)


def main() -> None:
    """The entry point of the program and of `python -m icecore`."""
    # obstore fills gaps from the clouds' variables; a warehouse is opened with its own credential alone.
    forget_ambient_credentials()
    log_uncaught()
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Runs one command; the exit code. What is meant for the operator goes to standard error without a trace."""
    try:
        code = app(arguments, exit_on_error=False, result_action="return_value")
    except CycloptsError:
        return ExitCode.USAGE  # The parser has said why.
    except SettingsError as error:
        return _failed(ExitCode.USAGE, str(error))
    except CommandFailed as failure:
        return _failed(failure.code, str(failure))
    except CatalogError as refusal:
        return _failed(ExitCode.NO, f"{refusal.type}: {refusal.message}")
    except BrokenPipeError:
        # The reader (head, less) has seen enough; keep the interpreter from complaining when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.OK
    except Exception as error:
        # A fault of ours: its trace goes through the chain that blanks secrets.
        structlog.get_logger("icecore.cli").error("crashed", exc_info=error)
        return ExitCode.CRASHED
    return int(code) if isinstance(code, int) else ExitCode.OK


@app.command
def serve(
    *,
    data: Data = None,
    port: int | None = None,
    host: str | None = None,
    workers: int | None = None,
    insecure: Annotated[bool | None, Parameter(negative=())] = None,
    allowed_hosts: str | None = None,
    config: Config = None,
) -> ExitCode:
    """Serve the catalog until SIGTERM or Ctrl-C.

    With no setting at all: an embedded Postgres and a warehouse named demo under the data folder, on loopback only.

    Parameters
    ----------
    port
        TCP port (ICECORE_PORT; 8181). 0 takes a free one.
    host
        Address to bind to (ICECORE_HOST; 127.0.0.1).
    workers
        Serving processes that share the port (ICECORE_WORKERS; 1).
    insecure
        Serve on an address that others reach, although there is no authentication.
    allowed_hosts
        Names by which clients call the server, separated by commas (ICECORE_ALLOWED_HOSTS).
    """
    from .serve import serve as run_serve

    run_serve(_settings(config, data, port=port, host=host, workers=workers, insecure=insecure, allowed_hosts=allowed_hosts))
    return ExitCode.OK


@app.command
def migrate(*, data: Data = None, config: Config = None) -> ExitCode:
    """Bring the database to the schema of this version. `serve` does it too."""
    from . import operator_commands

    return operator_commands.migrate(_settings(config, data), Console())


@app.command
def rebuild(*, statistics: Annotated[bool, Parameter(negative=())] = False, data: Data = None, config: Config = None) -> ExitCode:
    """Build the read models anew from the log, beside the old ones, and switch to them; serving goes on.

    Parameters
    ----------
    statistics
        Remove the statistics of warehouses instead, which the worker counts again from the first event.
    """
    from . import operator_commands

    command = operator_commands.reset_statistics if statistics else operator_commands.rebuild
    return command(_settings(config, data), Console())


@app.command
def verify(*, data: Data = None, config: Config = None) -> ExitCode:
    """Compare every read model and claim with the log, and check the log's chain of hashes; exit code 1 on a difference."""
    from . import operator_commands

    return operator_commands.verify(_settings(config, data), Console())


@warehouse.command(name="create")
def create_warehouse(
    name: str,
    *,
    profile: Annotated[str, Parameter(allow_leading_hyphen=True)],
    credential: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    exact_names: Annotated[bool, Parameter(negative=())] = False,
    data: Data = None,
    config: Config = None,
) -> ExitCode:
    """Create a warehouse and print its id.

    Parameters
    ----------
    name
        What clients name it by.
    profile
        Storage profile as JSON, @FILE, or - for standard input: '{"type": "local", "directory": "/data/lake"}'.
    credential
        Storage credential as JSON, @FILE, or - for standard input; it is encrypted and never shown again.
    exact_names
        Tell names apart by case.
    """
    from . import operator_commands
    from .commands.warehouses.create_warehouse import CreateWarehouse

    command = CreateWarehouse(
        name=name,
        storage_profile=operator_commands.json_argument(profile, "--profile"),
        storage_credential=None if credential is None else operator_commands.json_argument(credential, "--credential"),
        exact_names=exact_names,
    )
    return operator_commands.make_warehouse(_settings(config, data), Console(), command)


@warehouse.command(name="list")
def list_warehouses(
    *, as_json: Annotated[bool, Parameter(name="--json", negative=())] = False, data: Data = None, config: Config = None
) -> ExitCode:
    """List the warehouses.

    Parameters
    ----------
    as_json
        One JSON array instead of a table.
    """
    from . import operator_commands

    return operator_commands.list_warehouses(_settings(config, data), Console(), as_json=as_json)


@app.command
def log(
    *,
    follow: Annotated[bool, Parameter(negative=())] = False,
    after: Annotated[int, Parameter(name="--from")] = 1,
    limit: int | None = None,
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
    data: Data = None,
    config: Config = None,
) -> ExitCode:
    """Print the events of the log, oldest first.

    Parameters
    ----------
    follow
        Go on with new events until Ctrl-C.
    after
        Position of the first event.
    limit
        Number of events at most.
    as_json
        One JSON object a line instead of colours.
    """
    from .event_lines import print_events

    return print_events(_settings(config, data), first=after, follow=follow, limit=limit, as_json=as_json)


@app.command
def health(*, url: str | None = None, data: Data = None, config: Config = None) -> ExitCode:
    """Ask a running server how it is; exit code 1 if it is not well or does not answer.

    Parameters
    ----------
    url
        Address of the server; by default the one that serves the data folder, else host and port of the settings.
    """
    from . import operator_commands

    return operator_commands.health(_settings(config, data), Console(), url)


@app.command
def worker(*, data: Data = None, config: Config = None) -> ExitCode:
    """Publish to the sinks, count statistics and run the jobs, without serving, until SIGTERM or Ctrl-C; `serve` has a worker beside it."""
    from . import operator_commands

    return operator_commands.work(_settings(config, data))


@sinks.default
def show_sinks(
    *, as_json: Annotated[bool, Parameter(name="--json", negative=())] = False, data: Data = None, config: Config = None
) -> ExitCode:
    """Show every sink: how far it is behind, who leads it, what went wrong last; exit code 1 if one is in trouble.

    Parameters
    ----------
    as_json
        One JSON array instead of a table.
    """
    from . import sink_commands

    return sink_commands.show(_settings(config, data), Console(), as_json=as_json)


@sinks.command(name="skip")
def skip_event(name: str, position: int, *, reason: str, data: Data = None, config: Config = None) -> ExitCode:
    """Let a sink pass over one event for good. The skip is recorded with its reason; the log keeps the event.

    Parameters
    ----------
    name
        The sink.
    position
        Of the event; `icecore sinks` names the one that is refused.
    reason
        Why; it is kept.
    """
    from . import sink_commands

    return sink_commands.skip(_settings(config, data), Console(), name, position, reason)


@app.command
def publish(
    *,
    sink: str,
    first: Annotated[int, Parameter(name="--from")],
    last: Annotated[int | None, Parameter(name="--to")] = None,
    filters: Annotated[list[str] | None, Parameter(name="--filter", negative=())] = None,
    data: Data = None,
    config: Config = None,
) -> ExitCode:
    """Publish a part of the log to a sink again, marked as a replay; what happens meanwhile still goes out in its turn.

    Parameters
    ----------
    sink
        Its name in the settings.
    first
        Position of the first event.
    last
        Position of the last event; the end of the log.
    filters
        type=table.*, warehouse=NAME or namespace=a.b; may be given several times.
    """
    from . import sink_commands

    return sink_commands.publish(_settings(config, data), Console(), sink, first, last, filters or [])


def _settings(config: Path | None, data: Path | None, **overrides: Any) -> Settings:
    """The settings of this command; logging is set up by them."""
    settings = load_settings(config, {"data_dir": data, **overrides})
    if data is not None and settings.database_url is not None:
        raise SettingsError("--data is the embedded default's, and ICECORE_DATABASE_URL names another database: use one of them")
    configure_logs_for(settings)
    return settings


def _failed(code: ExitCode, message: str) -> ExitCode:
    Console(stderr=True, highlight=False, soft_wrap=True).print(f"icecore: {message}", markup=False)
    return code

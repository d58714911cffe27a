"""The commands `icecore sinks …`."""

from typing import Annotated

from cyclopts import App, Parameter

from .command_settings import CommonOptions, Flag, Json
from .exit_codes import CommandFailed, ExitCode
from .output import Output

sinks = App(
    name="sinks",
    help="Show event sinks, publish events again, or skip an event.\n\nWithout a command, the exit code is 1 if a sink needs attention.",
)


@sinks.default
def show_sinks(
    *, as_json: Annotated[Json, Parameter(help="Print JSON, with all fields.")] = False, options: CommonOptions = CommonOptions()
) -> ExitCode:
    """Show position, leader and last error of every sink. The exit code is 1 if a sink needs attention."""
    from . import sink_commands

    return sink_commands.show(options.settings(), Output(), as_json=as_json)


@sinks.command(name="skip")
def skip_event(sink: str, position: int, /, *, reason: str, options: CommonOptions = CommonOptions()) -> ExitCode:
    """Make a sink and its replays skip one event. The skip and its reason are recorded; the log keeps the event.

    If the sink has passed the position already, only replays skip it.

    Parameters
    ----------
    sink
        Name of the sink.
    position
        Position of the event. `icecore sinks` shows the position that a sink rejects.
    reason
        Why the event is skipped.
    """
    from . import sink_commands

    return sink_commands.skip(options.settings(), Output(), sink, position, reason)


@sinks.command(name="replay")
def replay_events(
    sink: str,
    /,
    *,
    first: Annotated[int | None, Parameter(name="--from")] = None,
    last: Annotated[int | None, Parameter(name="--to")] = None,
    filters: Annotated[list[str] | None, Parameter(name="--filter", negative=())] = None,
    cancel: Flag = False,
    options: CommonOptions = CommonOptions(),
) -> ExitCode:
    """Publish a part of the log to a sink again, marked as a replay. New events are still published.

    If the command is killed, the sink's leader finishes the replay. --cancel cancels it.

    Parameters
    ----------
    sink
        Name of the sink.
    first
        Position of the first event. Required unless --cancel is given.
    last
        Position of the last event. Default: the end of the log.
    filters
        Publish only events that match: type=table.*, warehouse=NAME or namespace=a.b. May be repeated.
    cancel
        Do not publish; cancel the unfinished replays of the sink.
    """
    from . import sink_commands

    if cancel:
        if first is not None or last is not None or filters:
            raise CommandFailed(ExitCode.USAGE, "--cancel cannot be combined with --from, --to or --filter")
        return sink_commands.cancel_replays(options.settings(), Output(), sink)
    if first is None:
        raise CommandFailed(ExitCode.USAGE, "--from is required, or --cancel. See icecore sinks replay --help")
    return sink_commands.replay(options.settings(), Output(), sink, first, last, filters or [])

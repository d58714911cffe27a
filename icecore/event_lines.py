"""`icecore log`: prints events in colour with names, or as JSON."""

import asyncio
import signal
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from datetime import UTC
from typing import Any
from uuid import UUID

import orjson
import uvloop
from rich.console import Console
from rich.text import Text

from .database.connection import connect
from .database.connections import Connection
from .domain.events import data_json
from .domain.project import PROJECT_ID_DEFAULT
from .domain.proposal import time_text
from .domain.recorded import RecordedEvent
from .event_selection import EventOptions, select_events
from .exit_codes import CommandFailed, ExitCode
from .log.follow import follow_events
from .log_database import opened_database, require_schema
from .output import Output, printable
from .projections import projects
from .projections.names import path_names
from .publishers.cloud_events import encode_json, outgoing
from .publishers.enricher import EventEnricher
from .settings import Settings

_CHANGES = (("set", "updates"), ("removed", "removals"))
_KIND_STYLES = {"warehouse": "magenta", "namespace": "blue", "table": "green", "view": "cyan", "proposal": "yellow"}
_TextOf = Callable[[Connection, RecordedEvent], Awaitable[str]]
_END_STYLES = {"dropped": "red", "unregistered": "red", "purged": "red", "rejected": "red", "expired": "red"}


def print_events(
    settings: Settings, options: EventOptions, *, follow: bool, limit: int | None, as_json: bool, as_cloud_events: bool
) -> ExitCode:
    """Prints at most `limit` of the selected events: up to the end of the log, or, with `follow`, until Ctrl-C."""
    if as_json and as_cloud_events:
        raise CommandFailed(ExitCode.USAGE, "--json and --cloudevents exclude each other")
    if options.first < 1:
        raise CommandFailed(ExitCode.USAGE, "--from must be a position of at least 1")
    if limit is not None and limit < 1:
        raise CommandFailed(ExitCode.USAGE, "--limit must be at least 1")
    with opened_database(settings) as opened:
        text_of = event_json if as_json else cloud_event() if as_cloud_events else None
        printed = uvloop.run(_print(opened, options, follow, limit, text_of))
    if printed == 0 and not follow:
        Console(stderr=True, highlight=False).print("icecore: no event matches")
    return ExitCode.OK


async def _print(settings: Settings, options: EventOptions, follow: bool, limit: int | None, text_of: _TextOf | None) -> int:
    """Returns the number of events. text_of -- None: event_line, in colour."""
    await require_schema(settings)
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    console = Output(highlight=False, soft_wrap=True)
    async with await connect(settings.dsn, prepare_threshold=0, application_name="icecore-command") as connection:
        selection = await select_events(connection, options, follow=follow)
        if selection.last is not None and selection.last < selection.first:
            return 0
        printed = 0
        async with aclosing(follow_events(settings.dsn, selection.first - 1, stop=stop)) as events:
            async for event in events:
                if selection.matches(event):
                    if text_of is not None:
                        console.out(await text_of(connection, event), highlight=False)
                    else:
                        console.print(await event_line(connection, event))
                    printed += 1
                # Positions have no gaps, so the event at `last` always arrives.
                if printed == limit or event.position == selection.last or console.quiet:
                    break
        return printed


async def event_json(connection: Connection, event: RecordedEvent) -> str:
    """The whole event as one JSON object. `name` is resolved; the other members are stored in the log."""
    return orjson.dumps(
        {
            "position": event.position,
            "recorded-at": event.recorded_at.astimezone(UTC),
            "topic": event.topic,
            "name": await _names(connection, event.stream_id, event.position),
            "stream-id": event.stream_id,
            "version": event.version,
            "event-id": event.event_id,
            "command-id": event.command_id,
            "project-id": event.project_id,
            "warehouse-id": event.warehouse_id,
            "actor": event.actor,
            "request-id": event.request_id,
            "correlation-id": event.correlation_id,
            "causation-id": event.causation_id,
            "traceparent": event.traceparent,
            "context": None if event.context is None else orjson.Fragment(event.context),
            "hash": event.hash.hex(),
            "data": orjson.Fragment(data_json(event.data)),
        }
    ).decode()


def cloud_event() -> _TextOf:
    """Makes the CloudEvent of an event as sinks get it, as one JSON object, however large."""
    enricher = EventEnricher()

    async def text_of(connection: Connection, event: RecordedEvent) -> str:
        (enriched,) = (await enricher.enrich(connection, [event])).events
        return encode_json(outgoing(enriched, "icecore")).decode()

    return text_of


async def event_line(connection: Connection, event: RecordedEvent) -> Text:
    """Position, time, event, object with its version, and the most relevant detail."""
    kind, _, rest = event.topic.partition(".")
    verb = rest.rpartition(".")[0] or rest
    line = Text()
    line.append(f"{event.position:>6}  ", "bold")
    line.append(f"{event.recorded_at.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}"[:-3] + "Z  ", "dim")
    line.append(f"{kind + ' ' + verb:<28}  ", _END_STYLES.get(verb, _KIND_STYLES.get(kind, "")))
    data = orjson.loads(data_json(event.data))
    line.append(await _shown_name(connection, event, event.position), "bold")
    line.append(f" v{event.version}", "dim")
    detail = _detail(kind, verb, data)
    if verb == "renamed" and kind != "project":
        detail = f"was {await _shown_name(connection, event, event.position - 1)}"
    if detail:
        line.append(f"  {printable(detail)}")
    return line


async def _shown_name(connection: Connection, event: RecordedEvent, position: int) -> str:
    """The name of the event's object at a position, after the newest name of its project if that is not the default one. Of a project, its
    newest name.
    """
    in_default = event.project_id == PROJECT_ID_DEFAULT
    state = None if in_default and event.stream_id != event.project_id else await projects.read_state(connection, event.project_id)
    project = str(event.project_id) if state is None else printable(state.name)
    if event.stream_id == event.project_id:
        return project
    name = _joined(await _names(connection, event.stream_id, position))
    return name if in_default else f"{project}/{name}"


async def _names(connection: Connection, object_id: UUID, position: int) -> Sequence[str]:
    return await path_names(connection, object_id, position) or (str(object_id),)


def _joined(names: Sequence[str]) -> str:
    """`warehouse:namespace.table`."""
    return printable(f"{names[0]}:{'.'.join(names[1:])}" if len(names) > 1 else names[0])


def _detail(kind: str, verb: str, data: dict[str, Any]) -> str:
    match kind, verb:
        case "warehouse", "created":
            return f"{data['storage-profile'].get('type', '')} storage"
        case "warehouse", "config-changed":
            changes = [(f"{word} {name}", [*data[f"{name}s-{field}"]]) for name in ("default", "override") for word, field in _CHANGES]
            return ", ".join(filter(None, (_keys(words, keys) for words, keys in changes)))
        case "namespace", "created":
            return _keys("with", list(data["properties"]))
        case "namespace", "properties-changed":
            return ", ".join(filter(None, (_keys("set", list(data["updates"])), _keys("removed", data["removals"]))))
        case (("table" | "view"), "committed"):
            counted = Counter(data["actions"])
            return ", ".join(f"{action} ×{times}" if times > 1 else action for action, times in counted.items())
        case (("table" | "view"), ("created" | "registered" | "overwritten")):
            return f"format v{data['metadata']['format-version']}{' (staged)' if data.get('staged') else ''}"
        case (("table" | "view" | "namespace"), "dropped"):
            return _drop_detail(data)
        case "proposal", "opened":
            return f"{data['operation']} of {', '.join('.'.join(each['name']) for each in data['objects'])}: {data['reason']}"
        case "proposal", "rejected":
            return str(data["reason"])
        case "table", "purged":
            left = data.get("files-left-count")
            return f"{data['files-deleted']} files deleted" + (f", {left} left" if left else "")
    # The new values of settings.
    scalars = {name: value for name, value in data.items() if isinstance(value, str | int)}
    return ", ".join(f"{name} {_shown(value)}" for name, value in scalars.items()) if verb.endswith("-changed") else ""


def _shown(value: str | int) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _drop_detail(data: dict[str, Any]) -> str:
    """Until when it can be undropped, and what happens to the files."""
    purges, expires_at_ms = data.get("purge-requested", False), data.get("expires-at-ms")
    files = "" if not purges else "keeps its files (gc.enabled=false)" if "gc-enabled" in data else "with its files"
    if expires_at_ms is None:
        return files
    return f"soft-deleted until {time_text(expires_at_ms)}" + (f", then {files}" if files else "")


def _keys(word: str, keys: list[str]) -> str:
    return f"{word} {', '.join(keys)}" if keys else ""

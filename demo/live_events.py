"""Follows the catalog's event stream and prints each event as one line."""

import contextlib
import json
import threading
import urllib.request
from collections.abc import Iterator
from http.client import HTTPException
from typing import Any

from rich.console import Console
from rich.text import Text

from demo.servers import DemoFailedError

ARRIVE_SECONDS_MAX = 20.0
SILENCE_SECONDS_MAX = 60.0
_STYLES = {"warehouse": "magenta", "namespace": "blue", "table": "green", "view": "cyan"}


class LiveEvents:
    """Prints events from a separate thread."""

    def __init__(self, console: Console, history_uri: str) -> None:
        self._console = console
        self._uri = history_uri
        self._position = 0
        self._moved = threading.Condition()
        self._thread = threading.Thread(target=self._follow, name="live-events", daemon=True)
        self._thread.start()

    def catch_up(self) -> None:
        """Returns once all events of the log are printed."""
        with urllib.request.urlopen(f"{self._uri}/events?after=now", timeout=ARRIVE_SECONDS_MAX) as response:
            head: int = json.load(response)["position"]
        with self._moved:
            if not self._moved.wait_for(lambda: self._position >= head, ARRIVE_SECONDS_MAX):
                raise DemoFailedError(f"The event stream is at {self._position}, the log at {head}")

    def _follow(self) -> None:
        request = urllib.request.Request(f"{self._uri}/events", headers={"Accept": "text/event-stream"})
        # The server ends the stream at the end of the demo, possibly with an error.
        with contextlib.suppress(OSError, HTTPException), urllib.request.urlopen(request, timeout=SILENCE_SECONDS_MAX) as stream:
            for event in _events(stream):
                self._console.print(event_line(event))
                with self._moved:
                    self._position = int(event["position"])
                    self._moved.notify_all()


def _events(stream: Any) -> Iterator[dict[str, Any]]:
    """The data of each event. Icecore writes it as one line of JSON."""
    for line in stream:
        name, _, value = line.partition(b":")
        if name == b"data":
            yield json.loads(value)


def event_line(event: dict[str, Any]) -> Text:
    """One line for an event: position, time, topic, object and result."""
    _, _, kind, verb, _ = event["type"].split(".")
    data = event["data"]
    line = Text(f"  ● event {event['position']:>3}  ", style="dim")
    line.append(f"{kind} {verb}", style=f"not dim {_STYLES.get(kind, 'white')}")
    line.append(f"  {event['subject']}", style="not dim bold")
    if "previous" in data:
        line.append(f"  was {'.'.join([*data['previous']['namespace']['name'], data['previous']['name']])}")
    records = data.get("summary", {}).get("added-records")
    if "operation" in data:
        line.append(f"  {data['operation']}" + (f" +{records} rows" if records else ""))
    elif data.get("actions"):
        line.append(f"  {', '.join(data['actions'])}")
    return line

"""A consumer in a separate process: it follows the event stream, reconnects, and rebuilds the catalog's tables.

`python -m tests.integration.history.stream_reader PORT SUBJECT [naive]`: until the event of the namespace SUBJECT. It prints a line at the
first event, and at the end one JSON object: `tables` by dotted name with their metadata locations, and the `positions` of the events in
order. A naive one reconnects without its last position. It uses only Server-Sent Events, CloudEvents and the published schemas.
"""

import http.client
import json
import sys
import time
from collections.abc import Iterator
from typing import Any

_SILENCE_SECONDS_MAX = 30
_PAUSE_SECONDS = 0.05


def streamed(port: int, last_event_id: str | None, naive: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields (id, event) until the stream ends or the connection breaks."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_SILENCE_SECONDS_MAX)
    headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": last_event_id} if last_event_id and not naive else {})
    start = "?after=now" if naive and last_event_id else ""
    connection.request("GET", f"/history/v1/events{start}", headers=headers)
    response = connection.getresponse()
    assert response.status == 200, response.read()
    fields: dict[str, str] = {}
    while line := response.readline():
        name, _, value = line.decode().rstrip("\n").partition(":")
        if name:
            fields[name] = value.removeprefix(" ")
        elif not value and fields:
            yield fields["id"], json.loads(fields["data"])
            fields = {}


def fold(tables: dict[str, tuple[str, str]], event: dict[str, Any]) -> None:
    """By table id: its name and metadata location."""
    noun, verb = event["type"].split(".")[2:4]
    if noun != "table":
        return
    table = event["data"]["table"]
    if verb in ("dropped", "unregistered", "purged"):
        tables.pop(table["id"], None)
    else:
        tables[table["id"]] = (".".join([*table["namespace"]["name"], table["name"]]), event["data"]["metadata-location"])


def main() -> None:
    port, subject, naive = int(sys.argv[1]), sys.argv[2], "naive" in sys.argv[3:]
    tables: dict[str, tuple[str, str]] = {}
    positions: list[int] = []
    last: str | None = None
    while True:
        try:
            for identifier, event in streamed(port, last, naive):
                assert identifier == event["position"]
                if last is None:
                    print("following", flush=True)
                last = identifier
                positions.append(int(identifier))
                fold(tables, event)
                if event["subject"] == subject:
                    print(json.dumps({"tables": dict(sorted(tables.values())), "positions": positions}))
                    return
        except (OSError, http.client.HTTPException):
            pass
        time.sleep(_PAUSE_SECONDS)


if __name__ == "__main__":
    main()

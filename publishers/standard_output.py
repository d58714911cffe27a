"""Standard output: one line of JSON for each event."""

import asyncio
import os
import sys
from collections.abc import Sequence
from typing import ClassVar

from ..domain.client_errors import client_error_text
from .cloud_events import OutgoingEvent, encode_json
from .sink import Checkpoint, SinkError, SinkPosition
from .sink_settings import StandardOutputSink


class StandardOutput:
    """The process's standard output. Its position is stored in Postgres."""

    STORES_POSITION: ClassVar[bool] = False
    BATCH_EVENTS_MAX: ClassVar[int] = 500

    def __init__(self, name: str, settings: StandardOutputSink, base_url: str) -> None:
        self._settings = settings
        self._base_url = base_url

    async def open(self) -> SinkPosition:
        return SinkPosition(None, 0)

    async def publish(self, events: Sequence[OutgoingEvent], live: Checkpoint | None) -> int:
        lines = b"".join(self._line(event) for event in events)
        try:
            # A reader that does not read blocks this thread instead of the event loop.
            await asyncio.to_thread(_write, lines)
        except OSError as error:
            raise SinkError(f"standard output cannot be written: {client_error_text(error)}") from error
        return 0

    async def close(self) -> None:
        """Does nothing: standard output stays open."""

    def _line(self, event: OutgoingEvent) -> bytes:
        line = encode_json(event)
        if len(line) > self._settings.event_bytes_max:
            line = encode_json(event.with_reference(self._base_url))
        return line + b"\n"


def _write(lines: bytes) -> None:
    left = memoryview(lines)
    while left:
        left = left[os.write(sys.stdout.fileno(), left) :]

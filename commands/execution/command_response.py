"""The response to a command."""

from dataclasses import dataclass, field, replace

from ...domain.byte_pieces import Content


@dataclass(frozen=True, slots=True)
class CommandResponse:
    """An HTTP status, an encoded JSON body, the position of the command in the log, and an ETag.

    position -- 0 before it is known.
    replayed -- whether this replays the response of an Idempotency-Key.
    """

    status: int
    body: Content | None
    position: int = 0
    etag: str | None = None
    replayed: bool = field(default=False, compare=False)

    def at(self, position: int) -> "CommandResponse":
        """A copy of the response with the position of the command's last event."""
        return replace(self, position=position)

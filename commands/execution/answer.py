"""The answer to a command."""

from dataclasses import dataclass, field, replace

from ...domain.byte_pieces import Content


@dataclass(frozen=True, slots=True)
class Answer:
    """What the edge sends: an HTTP status, a JSON body ready to send, the position of the command in the log, an ETag.

    position -- 0 before it is known.
    replayed -- it was given before; nothing was done this time.
    """

    status: int
    body: Content | None
    position: int = 0
    etag: str | None = None
    replayed: bool = field(default=False, compare=False)

    def at(self, position: int) -> "Answer":
        """The answer to a command that is in the log up to `position`."""
        return replace(self, position=position)

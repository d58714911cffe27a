"""An answer that is sent in pieces, as fast as its client reads."""

from collections.abc import Iterator

from aiohttp.abc import AbstractStreamWriter
from aiohttp.payload import Payload

from ..domain.byte_pieces import Content, joined, small_joined
from .byte_budget import HeldBytes, HeldContent

PIECE_BYTES = 64 * 1024
"""Written at once; the next piece waits until the client has taken most of those before."""


class PiecePayload(Payload):
    """Content as aiohttp sends a body, with its length. It is let go once it was sent: a connection keeps its last answer while it is idle.

    held -- what the content takes of budgets, given back with it.
    """

    _value: Content

    def __init__(self, value: Content, *held: HeldContent | HeldBytes) -> None:
        super().__init__(value, content_type="application/json")
        self._size = len(value)
        self._held = held

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return joined(self._value).decode(encoding, errors)

    async def as_bytes(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        return joined(self._value)

    async def write(self, writer: AbstractStreamWriter) -> None:
        try:
            for piece in _pieces(self._value):
                await writer.write(piece)
        except ConnectionError as error:
            # Frames behind here hold the error and the piece: a cycle that would keep the content until a collection.
            error.__traceback__ = None
            raise
        finally:
            self._value = b""
            for held in self._held:
                held.release()


def _pieces(content: Content) -> Iterator[bytes]:
    for whole in small_joined(content, PIECE_BYTES):
        yield from cut(whole)


def cut(whole: bytes | memoryview) -> Iterator[bytes]:
    """Copies of at most PIECE_BYTES: a socket that takes nothing keeps what was written to it, and by a view it would keep all."""
    view = memoryview(whole)
    for start in range(0, len(view), PIECE_BYTES):
        yield bytes(view[start : start + PIECE_BYTES])

"""A response body that is sent in pieces, as fast as its client reads."""

from collections.abc import Iterator

from aiohttp.abc import AbstractStreamWriter
from aiohttp.payload import Payload

from ..domain.byte_pieces import Content, joined, small_joined
from .byte_budget import BudgetReservation, ContentReservation

PIECE_BYTES = 64 * 1024
"""Size of one write. The next piece waits until the client has read most of the previous ones."""


class PiecePayload(Payload):
    """Content that aiohttp sends as a body with its length. It is released once it is sent, because an idle connection keeps its last
    response.

    reservations -- memory reserved for the content, released with it.
    """

    _value: Content

    def __init__(self, value: Content, *reservations: ContentReservation | BudgetReservation) -> None:
        super().__init__(value, content_type="application/json")
        self._size = len(value)
        self._reservations = reservations

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return joined(self._value).decode(encoding, errors)

    async def as_bytes(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        return joined(self._value)

    async def write(self, writer: AbstractStreamWriter) -> None:
        try:
            for piece in _pieces(self._value):
                await writer.write(piece)
        except ConnectionError as error:
            # Outer frames refer to the error and the piece: a reference cycle that would keep the content until a garbage collection.
            error.__traceback__ = None
            raise
        finally:
            self._value = b""
            for reservation in self._reservations:
                reservation.release()


def _pieces(content: Content) -> Iterator[bytes]:
    for whole in small_joined(content, PIECE_BYTES):
        yield from split_copies(whole)


def split_copies(whole: bytes | memoryview) -> Iterator[bytes]:
    """Copies of at most PIECE_BYTES. A socket keeps what it cannot send; a view would keep the whole content."""
    view = memoryview(whole)
    for start in range(0, len(view), PIECE_BYTES):
        yield bytes(view[start : start + PIECE_BYTES])

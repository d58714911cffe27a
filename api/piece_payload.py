"""An answer that is sent as the pieces it is made of."""

from aiohttp.abc import AbstractStreamWriter
from aiohttp.payload import Payload

from domain.byte_pieces import BytePieces


class PiecePayload(Payload):
    """`BytePieces` as aiohttp sends a body, with its length."""

    _value: BytePieces

    def __init__(self, value: BytePieces) -> None:
        super().__init__(value, content_type="application/json")
        self._size = len(value)

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return self._value.joined().decode(encoding, errors)

    async def as_bytes(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        return self._value.joined()

    async def write(self, writer: AbstractStreamWriter) -> None:
        for piece in self._value:
            await writer.write(piece)

"""Bytes in pieces: a large document shares most of its bytes with the version before, and joining would copy them."""

from collections.abc import Iterable, Iterator, Sized

JOINED_BYTES_MAX = 256 * 1024
"""Smaller pieces are joined: copying them costs less than handling them separately."""


def trimmed(data: bytes) -> bytes:
    """A copy of `data` without spare memory, for bytes that are kept: orjson's results take at least 4 KiB, or up to twice their length."""
    return bytes(memoryview(data))


class BytePieces:
    """A sequence of bytes objects, which may be shared with other BytePieces. `len` is the total number of bytes.

    memory_bytes -- what they take in memory; less than `len` if one piece occurs several times.
    """

    __slots__ = ("_pieces", "_size", "memory_bytes")

    def __init__(self, pieces: Iterable[bytes | memoryview], *, memory_bytes: int | None = None) -> None:
        self._pieces = tuple(pieces)
        self._size = sum(map(len, self._pieces))
        self.memory_bytes = self._size if memory_bytes is None else memory_bytes

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[bytes | memoryview]:
        return iter(self._pieces)

    def __eq__(self, other: object) -> bool:
        """Whether the pieces are equal; equal bytes that are divided differently are not."""
        return self._pieces == other._pieces if isinstance(other, BytePieces) else NotImplemented

    __hash__ = None  # type: ignore[assignment]


Content = bytes | memoryview | BytePieces
"""Bytes to write or send: in one object, or for a large document in pieces."""


def content_of(pieces: Iterable[bytes]) -> Content:
    """Joins small pieces with their neighbours and keeps large ones. Returns bytes if none is large."""
    few: list[bytes] = []
    small: list[bytes] = []
    for piece in pieces:
        if len(piece) < JOINED_BYTES_MAX:
            small.append(piece)
            continue
        few += [b"".join(small), piece] if small else [piece]
        small = []
    last = b"".join(small)
    return BytePieces([*few, last] if last else few) if few else last


def wrapped(opening: bytes, content: Content, closing: bytes) -> Content:
    """`content` between two other texts, without copying it if it is in pieces."""
    if isinstance(content, BytePieces):
        # Not `*content`: Python would allocate a list by its `len`, which is the number of bytes.
        return BytePieces((opening, *content._pieces, closing))
    return b"".join((opening, content, closing))


def small_joined(content: Content, bytes_max: int) -> Iterator[bytes | memoryview]:
    """The content's pieces, with small ones joined to pieces of at most `bytes_max`."""
    small: list[bytes | memoryview] = []
    size = 0
    for piece in pieces_of(content):
        if size + len(piece) > bytes_max:
            if small:
                yield b"".join(small)
            small, size = [], 0
            if len(piece) > bytes_max:
                yield piece
                continue
        small.append(piece)
        size += len(piece)
    if small:
        yield b"".join(small)


def joined(content: Content) -> bytes:
    """The content as one bytes object."""
    return b"".join(content) if isinstance(content, BytePieces) else bytes(content)


def pieces_of(content: Content) -> Iterable[bytes | memoryview]:
    """The content's pieces, in order."""
    return content if isinstance(content, BytePieces) else (content,)


def memory_bytes_of(content: Sized) -> int:
    """What a content or a listing takes in memory; less than its length if one piece occurs several times."""
    return content.memory_bytes if isinstance(content, BytePieces) else len(content)

"""Documents of many bytes are decoded in a thread, so that other requests run meanwhile."""

import threading
from collections.abc import Sequence

from icecore.projections.bounded_reads import _DECODED_INLINE_BYTES_MAX, decoded


async def test_only_many_bytes_are_decoded_in_a_thread() -> None:
    def decode(rows: Sequence[int]) -> list[tuple[int, bool]]:
        return [(row, threading.current_thread() is threading.main_thread()) for row in rows]

    assert [(1, True), (2, True)] == await decoded(decode, [1, 2], _DECODED_INLINE_BYTES_MAX)
    assert [(1, False), (2, False)] == await decoded(decode, [1, 2], _DECODED_INLINE_BYTES_MAX + 1)

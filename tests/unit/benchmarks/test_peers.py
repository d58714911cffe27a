"""The table of servers includes failures."""

import contextlib
from collections.abc import Iterator

from benchmarks.peers import WORKS, Peer, Started, table


@contextlib.contextmanager
def never() -> Iterator[Started]:
    raise AssertionError
    yield


def test_what_was_refused_and_what_failed_is_counted() -> None:
    """Also connections that ended without a response. A server that is not measured has only a reason."""
    work = next(iter(WORKS))
    blocks = [
        {"rate": 100.0, "p50_ms": 1.0, "p99_ms": 2.0, "statuses": {"200": 90, "204": 5, "409": 4, "500": 3}, "lost": 2},
        {"rate": 0.0, "statuses": {"none": 1}},
    ]
    measured = Peer("measured", never, blocks={work: blocks}, memory_bytes=3 * 2**20)
    absent = Peer("absent", never, absent="no room")
    rows = dict(line.strip("| ").split(" | ", 1) for line in table([measured, absent]).splitlines() if line.startswith("| "))
    assert "50; 1, 2 | –" == rows[work]
    assert ["4 | –", "6 | –", "3 MiB | –"] == [rows[name] for name in ("refused (409)", "failed", "resident at the end")]
    assert table([measured, absent]).endswith("\nabsent is not measured: no room")

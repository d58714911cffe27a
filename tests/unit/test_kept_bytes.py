"""The parts of a document take about as much memory as their bytes."""

import tracemalloc

from icecore.domain.documents import TABLE_KINDS, Part, split, table_head


def test_parts_take_no_more_memory_than_their_bytes() -> None:
    """orjson's results take at least 4 KiB each, so small parts must be copied."""
    parts = [Part(n, {"snapshot-id": n, "manifest-list": "s3://bucket/table/metadata/snap.avro"}) for n in range(1_000)]
    tracemalloc.start()
    try:
        sizes = [len(part.body) for part in parts]
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert taken < 2 * sum(sizes)


def test_a_table_head_takes_no_more_memory_than_its_bytes() -> None:
    """One is cached for each table with commits."""
    value = {"format-version": 2, "table-uuid": "01990000-0000-7000-8000-000000000001"}
    value |= {"last-sequence-number": 0, "current-snapshot-id": -1}
    documents = [split(value | {"location": f"s3://bucket/{n}"}, TABLE_KINDS) for n in range(500)]
    tracemalloc.start()
    try:
        sizes = [len(table_head(document)) for document in documents]
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert taken < 2 * sum(sizes)

"""The hash chain: a hash over every column of a row and the previous hash, in a form that never changes."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import pytest

from icecore.domain.recorded import GENESIS_HASH, RecordedEvent, chain_hash

EVENT = RecordedEvent(
    stream_id=UUID(int=1),
    version=2,
    topic="table.committed.v1",
    data=b'{"k":"v"}',
    position=3,
    event_id=UUID(int=4),
    command_id=UUID(int=5),
    recorded_at=datetime(2026, 1, 2, 3, 4, 5, 6, UTC),
    actor="anonymous",
    project_id=UUID(int=6),
    warehouse_id=UUID(int=7),
    request_id="request",
    correlation_id=None,
    causation_id=None,
    traceparent=None,
    context=None,
    hash=b"",
)

OTHERS: dict[str, Any] = {
    "stream_id": UUID(int=9),
    "version": 9,
    "topic": "table.committed.v2",
    "data": b'{"k":"w"}',
    "position": 9,
    "event_id": UUID(int=9),
    "command_id": UUID(int=9),
    "recorded_at": EVENT.recorded_at + timedelta(microseconds=1),
    "actor": "anonymou",
    "project_id": UUID(int=9),
    "warehouse_id": UUID(int=9),
    "request_id": "requests",
    "correlation_id": "",
    "causation_id": UUID(int=0),
    "traceparent": "",
    "context": "",
}


def test_the_form_of_the_chain_is_frozen() -> None:
    """Existing logs are chained with it."""
    first = chain_hash(GENESIS_HASH, EVENT)
    assert "52eb798ed60302d2a7252bbd4058a714ca9770e0b4a79c423f7d44e2665835d2" == first.hex()
    assert "e552588c2ca926b2c4070332f1f058de2a8072743452a519f94cd718d303d1b0" == chain_hash(first, EVENT).hex()


def test_every_column_but_the_hash_is_in_it() -> None:
    """A new column needs a decision here."""
    assert set(OTHERS) | {"hash"} == set(RecordedEvent.__slots__)


@pytest.mark.parametrize("column", OTHERS)
def test_a_change_of_any_column_changes_the_hash(column: str) -> None:
    """Times count to the microsecond, and null differs from empty."""
    assert chain_hash(GENESIS_HASH, EVENT) != chain_hash(GENESIS_HASH, replace(EVENT, **{column: OTHERS[column]}))


def test_the_hash_before_is_in_it_and_the_rows_own_is_not() -> None:
    """A row's own hash is compared but not part of it."""
    assert chain_hash(GENESIS_HASH, EVENT) != chain_hash(bytes([1] * 32), EVENT)
    assert chain_hash(GENESIS_HASH, EVENT) == chain_hash(GENESIS_HASH, replace(EVENT, hash=b"x"))


def test_without_a_context_the_hash_is_that_of_logs_from_before_there_was_one() -> None:
    """With a context, the bytes cannot be confused with a longer previous column or the next row."""
    first = chain_hash(GENESIS_HASH, replace(EVENT, context='{"engine":"spark"}'))
    assert "a84b8f9d9624eec639767cdcd244332771259a40702b9430e24b1c2ab77d33de" == first.hex()
    assert first != chain_hash(GENESIS_HASH, replace(EVENT, traceparent='{"engine":"spark"}'))


def test_columns_cannot_lend_each_other_bytes() -> None:
    """Each has its length before it, so that moving bytes between columns changes the hash."""
    assert chain_hash(GENESIS_HASH, replace(EVENT, correlation_id="ab", traceparent="c")) != chain_hash(
        GENESIS_HASH, replace(EVENT, correlation_id="a", traceparent="bc")
    )


def test_a_time_is_one_moment_in_every_zone() -> None:
    """The hash contains the moment, not its text."""
    elsewhere = EVENT.recorded_at.astimezone(timezone(timedelta(hours=-8)))
    assert chain_hash(GENESIS_HASH, EVENT) == chain_hash(GENESIS_HASH, replace(EVENT, recorded_at=elsewhere))

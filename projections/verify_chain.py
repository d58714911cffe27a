"""Checks the chain of events: positions, times and hashes."""

from collections.abc import Iterable

from ..domain.recorded import GENESIS_HASH, RecordedEvent, chain_hash
from .verify_report import VerifyReport


def check_chain(events: Iterable[RecordedEvent], report: VerifyReport) -> tuple[RecordedEvent, RecordedEvent] | None:
    """Checks that positions are dense, times do not decrease and hashes are chained, from the first of `events` to the last.

    Returns both; None if there are no events. `check_link` checks the link to the events before.
    """
    first = previous = None
    for event in events:
        if first is None or previous is None:
            first = event
        else:
            check_link(previous, event, report)
        previous = event
    return None if first is None or previous is None else (first, previous)


def check_link(previous: RecordedEvent | None, event: RecordedEvent, report: VerifyReport) -> None:
    """Checks an event against the one before it; None: it is the first."""
    key = f"position {event.position}"
    position = 1 if previous is None else previous.position + 1
    if event.position != position:
        report.add("events", key, "notification_id", position, event.position)
    if previous is not None and event.recorded_at < previous.recorded_at:
        report.add("events", key, "recorded_at", f"not before {previous.recorded_at}", event.recorded_at)
    # The hash before is taken as it is stored, so that a change results in one or two differences, not in one for every later event.
    expected = chain_hash(GENESIS_HASH if previous is None else previous.hash, event)
    if event.hash != expected:
        report.add("events", key, "hash", expected, event.hash)

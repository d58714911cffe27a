"""Which positions the options of `icecore log` select, on a log of ten events."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from icecore import event_selection
from icecore.event_selection import EventOptions, select_events
from icecore.exit_codes import CommandFailed

HEAD = 10
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def at(position: int) -> str:
    """The time of an event: one each second."""
    return (BEGIN + timedelta(seconds=position)).isoformat()


@pytest.fixture(autouse=True)
def log(monkeypatch: pytest.MonkeyPatch) -> None:
    async def log_head(_: object) -> int:
        return HEAD

    async def position_at(_: object, time: datetime) -> int | None:
        reached = (time - BEGIN) // timedelta(seconds=1)
        return None if reached > HEAD else max(reached, 0)

    monkeypatch.setattr(event_selection, "log_head", log_head)
    monkeypatch.setattr(event_selection, "position_at", position_at)


async def selected(follow: bool = False, **options: Any) -> tuple[int, int | None]:
    connection: Any = None
    selection = await select_events(connection, EventOptions(**options), follow=follow)
    return selection.first, selection.last


async def test_a_position_and_a_time_both_apply() -> None:
    """Whichever is later."""
    assert (5, 10) == await selected(since=at(5))
    assert (7, 10) == await selected(first=7, since=at(5))
    assert (5, 10) == await selected(first=3, since=at(5))
    assert (3, 5) == await selected(first=3, until=at(5))
    assert (1, 10) == await selected(until=at(11))


async def test_the_next_event_can_be_waited_for() -> None:
    """Its position is the first that does not exist yet; later ones are refused."""
    assert (11, None) == await selected(follow=True, first=11)
    assert (11, 10) == await selected(first=11)
    for follow in (True, False):
        with pytest.raises(CommandFailed, match=r"--from 12 is beyond the end of the log \(10\)"):
            await selected(follow, first=12)

"""What `icecore sinks` says of one sink."""

import io
from typing import Any
from uuid import UUID

import pytest
from rich.console import Console

from icecore.publishers.checkpoints import SinkStatus
from icecore.settings import Settings
from icecore.sink_commands import print_table, sink_row

NONE = dict.fromkeys(SinkStatus.__slots__)
HEALTHY = SinkStatus(**{**NONE, "name": "out", "position": 7, "head": 9, "skips": 0, "leader": "host", "led": True})  # type: ignore[arg-type]


def status(**changed: Any) -> SinkStatus:
    return SinkStatus(**{name: changed.get(name, getattr(HEALTHY, name)) for name in SinkStatus.__slots__})


@pytest.mark.parametrize(
    ("changed", "problems"),
    [
        ({}, []),
        ({"last_error": "refused"}, ["refused"]),
        ({"blocked_position": 8}, ["fix the destination, or: icecore sinks skip out 8 --reason …"]),
        ({"lost_position": 5}, ["the broker lost events up to 5; publish them again: icecore sinks replay out --from 1"]),
        ({"led": False}, ["no leader: is `icecore serve` or `icecore worker` running?"]),
    ],
)
def test_what_needs_attention_is_said_with_what_to_do(changed: dict[str, Any], problems: list[str]) -> None:
    row = sink_row("out", status(**changed), 9, configured=True)
    assert (problems, 7, 2) == (row["problems"], row["position"], row["lag-events"])
    assert row["leader"] == (None if "led" in changed else "host")


def test_a_sink_that_is_not_in_the_settings_needs_no_leader() -> None:
    """It was removed from them."""
    assert [] == sink_row("out", status(led=False), 9, configured=False)["problems"]


@pytest.mark.parametrize("standby", [False, True])
def test_a_sink_that_was_removed_from_the_settings_is_neither_healthy_nor_a_problem(standby: bool) -> None:
    """Its last error stays in the database, and nothing can be done about it. The type is no longer known."""
    out = io.StringIO()
    failed = status(led=False, last_error="refused", blocked_position=8, lost_position=5)
    row = sink_row("out", failed, 9, configured=False, standby=standby)
    print_table([row], Settings(), Console(file=out, width=200))
    assert ([], "refused", False) == (row["problems"], row["last-error"], row["configured"])
    assert f"not in the settings: {'leader unknown' if standby else 'nothing is published to it'}" in out.getvalue()
    assert "healthy" not in out.getvalue()


def test_a_sink_that_another_process_has_in_its_settings_shows_its_problems() -> None:
    """It leads, with other settings than those of this command."""
    assert ["refused"] == sink_row("out", status(last_error="refused"), 9, configured=False)["problems"]


def test_a_standby_does_not_know_the_leader() -> None:
    """Locks are on the primary. A sink without a leader there would need attention."""
    out = io.StringIO()
    row = sink_row("out", status(led=False), 9, configured=True, standby=True)
    print_table([row], Settings(), Console(file=out, width=80))
    assert ([], None, True) == (row["problems"], row["leader"], row["standby"])
    assert "leader unknown: this Postgres is a standby" in out.getvalue()
    assert ["not started, as far as this standby has replayed"] == sink_row("out", None, 9, configured=True, standby=True)["problems"]


def test_a_problem_is_not_wrapped_off_a_terminal() -> None:
    """One line for each sink, so that lines can be searched."""
    out = io.StringIO()
    console = Console(file=out, width=80)
    print_table([sink_row("out", status(last_error="refused " * 20), 9, configured=True)], Settings(), console)
    assert 2 == len(out.getvalue().splitlines())


def test_a_replay_is_shown_at_its_position() -> None:
    out = io.StringIO()
    replaying = status(replay_id=UUID(int=1), replay_from=1, replay_to=9, replay_position=4)
    print_table([sink_row("out", replaying, 9, configured=True)], Settings(), Console(file=out, width=120))
    assert "replay at 4" in out.getvalue()

"""Processes beside a server: whatever they do, they are started again, and gone when they are told to stop."""

import asyncio
from pathlib import Path

import pytest
import structlog
import uvloop

from icecore import child_process
from icecore.child_process import ChildProcess

PROGRAM = "tests.fixtures.child_program"


def stopped_after(child: ChildProcess, *, deaths: int = 0, ready: bool = False) -> list[int]:
    """The exit codes of those that died, of a child that is stopped after so many deaths, or once it is ready."""

    async def run() -> list[int]:
        stop, codes = asyncio.Event(), list[int]()

        def died(code: int) -> None:
            codes.append(code)
            if len(codes) == deaths:
                stop.set()

        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            group.create_task(child.keep_running(stop, died=died))
            if ready:
                await child.ready.wait()
                stop.set()
        return codes

    return uvloop.run(run())


def test_one_that_dies_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """As often as it takes."""
    monkeypatch.setattr(child_process, "RESTART_SECONDS_MIN", 0.01)
    assert [7, 7, 7] == stopped_after(ChildProcess("one", PROGRAM, {"exit": 7}, grace_seconds=5), deaths=3)


@pytest.mark.parametrize(("healthy_seconds", "pauses"), [(1_000.0, [0.02, 0.04, 0.05]), (0.0, [0.01, 0.01, 0.01])])
def test_pauses_grow_up_to_a_bound_until_one_lives(monkeypatch: pytest.MonkeyPatch, healthy_seconds: float, pauses: list[float]) -> None:
    """What dies at once is not started as fast as the machine can."""
    monkeypatch.setattr(child_process, "RESTART_SECONDS_MIN", 0.01)
    monkeypatch.setattr(child_process, "RESTART_SECONDS_MAX", 0.05)
    monkeypatch.setattr(child_process, "HEALTHY_SECONDS", healthy_seconds)
    with structlog.testing.capture_logs() as logged:
        assert [7, 7, 7] == stopped_after(ChildProcess("one", PROGRAM, {"exit": 7}, grace_seconds=5), deaths=3)
    assert pauses == [each["pause_seconds"] for each in logged]


def test_a_stop_is_heard_in_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long it would be."""
    monkeypatch.setattr(child_process, "RESTART_SECONDS_MIN", 1_000.0)
    monkeypatch.setattr(child_process, "RESTART_SECONDS_MAX", 1_000.0)
    assert [7] == stopped_after(ChildProcess("one", PROGRAM, {"exit": 7}, grace_seconds=5), deaths=1)


def test_one_that_dies_before_it_reads_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it was to be given is more than a pipe holds."""
    monkeypatch.setattr(child_process, "RESTART_SECONDS_MIN", 0.01)
    given = {"settings": "x" * 4_000_000}
    assert [0, 0] == stopped_after(ChildProcess("one", "icecore.exit_codes", given, grace_seconds=5), deaths=2)


@pytest.mark.parametrize("deaf", [False, True])
def test_one_that_serves_is_stopped(deaf: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By SIGTERM; one that does not hear it is killed."""
    monkeypatch.setattr(child_process, "KILL_MARGIN_SECONDS", 0.2)
    note = tmp_path / "note"
    child = ChildProcess("one", PROGRAM, {"note": str(note), "deaf": deaf}, grace_seconds=0.2 if deaf else 30.0, says_ready=True)
    assert [] == stopped_after(child, ready=True)
    process_id, *graceful = note.read_text().split()
    assert ([] if deaf else ["gracefully"]) == graceful
    assert not Path(f"/proc/{process_id}").exists()

"""Child processes of a server are restarted when they die, and end when they are stopped."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import orjson
import pytest
import structlog
import uvloop

from icecore import child_process
from icecore.child_process import ChildProcess

PROGRAM = "tests.fixtures.child_program"


@pytest.fixture(autouse=True)
def checkout_on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Children do not import from the current folder, and the tests are not installed."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))


def stopped_after(child: ChildProcess, *, deaths: int = 0, ready: bool = False) -> list[int]:
    """The exit codes of the children that died, for a child that is stopped after that many deaths, or once it is ready."""

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
    monkeypatch.setattr(child_process, "RESTART_SECONDS_MIN", 0.01)
    assert [7, 7, 7] == stopped_after(ChildProcess("one", PROGRAM, {"exit": 7}, grace_seconds=5), deaths=3)


@pytest.mark.parametrize(("healthy_seconds", "pauses"), [(1_000.0, [0.02, 0.04, 0.05]), (0.0, [0.01, 0.01, 0.01])])
def test_pauses_grow_up_to_a_bound_until_one_lives(monkeypatch: pytest.MonkeyPatch, healthy_seconds: float, pauses: list[float]) -> None:
    """A child that dies at once must not be restarted as fast as possible."""
    monkeypatch.setattr(child_process, "RESTART_SECONDS_MIN", 0.01)
    monkeypatch.setattr(child_process, "RESTART_SECONDS_MAX", 0.05)
    monkeypatch.setattr(child_process, "HEALTHY_SECONDS", healthy_seconds)
    with structlog.testing.capture_logs() as logged:
        assert [7, 7, 7] == stopped_after(ChildProcess("one", PROGRAM, {"exit": 7}, grace_seconds=5), deaths=3)
    assert pauses == [each["pause_seconds"] for each in logged]


def test_a_stop_ends_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even in a long pause."""
    monkeypatch.setattr(child_process, "RESTART_SECONDS_MIN", 1_000.0)
    monkeypatch.setattr(child_process, "RESTART_SECONDS_MAX", 1_000.0)
    assert [7] == stopped_after(ChildProcess("one", PROGRAM, {"exit": 7}, grace_seconds=5), deaths=1)


def test_one_that_dies_before_it_reads_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its input is larger than a pipe's buffer."""
    monkeypatch.setattr(child_process, "RESTART_SECONDS_MIN", 0.01)
    given = {"settings": "x" * 4_000_000}
    assert [0, 0] == stopped_after(ChildProcess("one", "icecore.exit_codes", given, grace_seconds=5), deaths=2)


def test_a_child_ends_with_its_parent_and_not_by_ctrl_c(tmp_path: Path) -> None:
    """Ctrl-C is sent to the whole process group, and the parent stops its children in its own order. The end of the pipe tells a child that
    its parent has ended.
    """
    note = tmp_path / "note"
    with subprocess.Popen([sys.executable, "-m", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            child.stdin.write(orjson.dumps({"note": str(note), "deaf": False}) + b"\n")
            child.stdin.flush()
            assert b"ready\n" == child.stdout.readline()
            child.send_signal(signal.SIGINT)
            child.stdin.close()
            assert 0 == child.wait(60)
        finally:
            child.kill()
    assert "gracefully" == note.read_text().split()[1]


def test_none_is_left_where_the_parent_gives_up(tmp_path: Path) -> None:
    """For any error in the parent."""
    note = tmp_path / "note"
    child = ChildProcess("one", PROGRAM, {"note": str(note), "deaf": True}, grace_seconds=5, reports_ready=True)

    async def run() -> None:
        keeping = asyncio.create_task(child.keep_running(asyncio.Event()))
        await child.ready.wait()
        keeping.cancel()
        await asyncio.wait({keeping})
        process_id = int(note.read_text())
        with pytest.raises(ProcessLookupError):
            os.kill(process_id, signal.SIGKILL)

    uvloop.run(run())


def test_no_module_is_taken_from_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other accounts may be able to write there."""
    (tmp_path / "orjson.py").write_text("raise SystemExit(9)")
    monkeypatch.chdir(tmp_path)
    assert [7] == stopped_after(ChildProcess("one", PROGRAM, {"exit": 7}, grace_seconds=5), deaths=1)


@pytest.mark.parametrize("deaf", [False, True])
def test_one_that_serves_is_stopped(deaf: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With SIGTERM. One that ignores it is killed."""
    monkeypatch.setattr(child_process, "KILL_MARGIN_SECONDS", 0.2)
    note = tmp_path / "note"
    child = ChildProcess("one", PROGRAM, {"note": str(note), "deaf": deaf}, grace_seconds=0.2 if deaf else 30.0, reports_ready=True)
    assert [] == stopped_after(child, ready=True)
    process_id, *graceful = note.read_text().split()
    assert ([] if deaf else ["gracefully"]) == graceful
    assert not Path(f"/proc/{process_id}").exists()

"""Fault points are off by default, and an invalid setting is refused."""

import os
import subprocess
import sys

import pytest

from icecore.commands.execution import fault_points
from icecore.commands.execution.fault_points import POINTS, parse_faults


def test_they_are_off_unless_the_environment_says_otherwise() -> None:
    """No fault is active in this process."""
    assert not fault_points.SWITCHED_ON


def test_points_actions_and_probabilities_are_read() -> None:
    """Several faults at one point, each with its own probability."""
    faults = parse_faults("commit.after_append:kill@0.25,commit.after_append:hang=2@0.5,commit.before_append:raise")
    assert {"commit.after_append", "commit.before_append"} == {*faults} <= POINTS
    assert [("kill", 0.25, 0.0), ("hang", 0.5, 2.0)] == [(f.action, f.probability, f.seconds) for f in faults["commit.after_append"]]
    assert [1.0] == [fault.probability for fault in faults["commit.before_append"]]


@pytest.mark.parametrize("text", ["commit.nowhere:kill", "commit.after_append:explode", "commit.after_append:hang", "commit.after_append"])
def test_a_fault_that_would_never_come_is_refused(text: str) -> None:
    """A misspelt fault would never occur."""
    with pytest.raises(ValueError, match="cannot read"):
        parse_faults(text)


def test_kill_ends_the_process_as_kill_9_does() -> None:
    """Activated by the environment; prints a line with its name."""
    imports = "import asyncio; from icecore.commands.execution import fault_points"
    program = f"{imports}; asyncio.run(fault_points.reach('commit.before_append')); print('alive')"
    environment = {**os.environ, "ICECORE_TEST_FAULT": "commit.before_append:kill"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert -9 == done.returncode
    assert "" == done.stdout
    assert done.stderr.startswith("fault_point commit.before_append kill")

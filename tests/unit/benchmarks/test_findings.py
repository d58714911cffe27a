"""Verdicts: goals met and missed, reports, and figures that do not count."""

import math

import pytest

from benchmarks import report
from benchmarks.findings import Finding, Goal, at_least, at_most, within


@pytest.mark.parametrize(
    ("goal", "figure", "verdict"),
    [
        (at_least(1.2), 1.2, "pass"),
        (at_least(1.2), 1.19, "miss"),
        (at_most(50, "ms"), 50.0, "pass"),
        (at_most(50, "ms"), 50.1, "miss"),
        (within(0.2), 0.81, "pass"),
        (within(0.2), 1.21, "miss"),
        (None, 7.0, "report"),
        (at_least(1), math.nan, "miss"),
    ],
)
def test_verdicts(goal: Goal | None, figure: float, verdict: str) -> None:
    """A figure equal to the goal meets it; NaN does not."""
    assert verdict == Finding("x", figure, goal=goal).verdict


def test_a_void_figure_never_passes() -> None:
    """If the reference was slow, a good ratio means nothing."""
    assert "void" == Finding("x", 9.0, goal=at_least(1), void="the reference was slow").verdict


def test_the_table_has_a_row_for_every_finding() -> None:
    """With its interval and its goal."""
    finding = Finding("rate", 1.234, goal=at_least(1.2), interval=(1.1, 1.3), claim="load_hot")
    assert "| load_hot | rate | 1.23 × [1.10, 1.30] | ≥ 1.2 × | pass |" == report.table([finding]).splitlines()[-1]

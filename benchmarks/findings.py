"""The result of a claim: figures, each with its goal and whether it is met."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from benchmarks.blocks import Ratio

Json = dict[str, Any]
Verdict = Literal["pass", "miss", "report", "void"]


@dataclass(frozen=True, slots=True)
class Goal:
    """At least, or at most, `value`; `text` is how it is printed."""

    text: str
    met: Callable[[float], bool]


def at_least(value: float, unit: str = "×") -> Goal:
    return Goal(f"≥ {value:g} {unit}".strip(), lambda figure: figure >= value)


def at_most(value: float, unit: str = "×") -> Goal:
    return Goal(f"≤ {value:g} {unit}".strip(), lambda figure: figure <= value)


def within(share: float) -> Goal:
    return Goal(f"within ±{share:.0%}", lambda figure: 1 - share <= figure <= 1 + share)


@dataclass(slots=True)
class Finding:
    """One figure.

    what -- the figure in words.
    goal -- None: only reported.
    interval -- of the figure, if rounds were compared.
    void -- why the figure does not count (the reference is slower than recorded).
    details -- the values it was computed from.
    """

    what: str
    figure: float
    unit: str = "×"
    goal: Goal | None = None
    interval: tuple[float, float] | None = None
    details: Json = field(default_factory=dict)
    void: str | None = None
    claim: str = ""

    @property
    def verdict(self) -> Verdict:
        if self.void is not None:
            return "void"
        if self.goal is None:
            return "report"
        return "pass" if self.goal.met(self.figure) else "miss"

    def to_json(self) -> Json:
        return {
            "claim": self.claim,
            "what": self.what,
            "figure": self.figure,
            "unit": self.unit,
            "interval": self.interval,
            "goal": None if self.goal is None else self.goal.text,
            "verdict": self.verdict,
            "void": self.void,
            "details": self.details,
        }


def of_ratio(what: str, ratio: Ratio, goal: Goal | None, details: Json) -> Finding:
    return Finding(what, ratio.value, "×", goal, (ratio.low, ratio.high), {**details, "rounds": ratio.rounds})

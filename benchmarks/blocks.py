"""Alternating blocks: compared variants run in turns, because the speed of machines varies. The ratio has a confidence interval."""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TypeVar

T = TypeVar("T")

CONFIDENCE = 0.95
_RESAMPLES = 2_000


@dataclass(frozen=True, slots=True)
class Ratio:
    """The median of the rounds' ratios, and the interval that contains it in 95 of 100 resamplings of the rounds."""

    value: float
    low: float
    high: float
    rounds: int

    def __str__(self) -> str:
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"


def alternate(rounds: int, variants: Mapping[str, Callable[[], T]]) -> dict[str, list[T]]:
    """Runs each variant once per round, in an order that rotates with the rounds. Returns the results by variant, in rounds."""
    names = [*variants]
    results: dict[str, list[T]] = {name: [] for name in names}
    for number in range(rounds):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            results[name].append(variants[name]())
    return results


def ratio(figures: Sequence[float], reference: Sequence[float]) -> Ratio:
    """The ratio of two variants measured in the same rounds."""
    assert len(figures) == len(reference) > 0
    pairs = [figure / other for figure, other in zip(figures, reference, strict=True)]
    low, high = interval(pairs)
    return Ratio(median(pairs), low, high, len(pairs))


def interval(values: Sequence[float]) -> tuple[float, float]:
    """The bootstrap interval of the median. It is deterministic."""
    drawn = random.Random(len(values))  # Not for secrets: the draw must be repeatable.
    medians = sorted(median(drawn.choices(values, k=len(values))) for _ in range(_RESAMPLES))
    cut = int(_RESAMPLES * (1 - CONFIDENCE) / 2)
    return medians[cut], medians[-1 - cut]


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that is not exceeded by at least `share` of all values."""
    assert values, "there is no percentile of nothing"
    assert 0 < share <= 1
    ordered = sorted(values)
    # Slightly less, so that 0.95 of 100 is the 95th value and not, by rounding, the 96th.
    return ordered[max(math.ceil(share * len(ordered) - 1e-9), 1) - 1]

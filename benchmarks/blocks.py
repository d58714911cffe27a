"""Alternating blocks: what is compared runs in turns, because machines drift; the ratio comes with its interval."""

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
    """The median of the rounds' ratios, and the interval that holds it in 95 of 100 resamplings of the rounds."""

    value: float
    low: float
    high: float
    rounds: int

    def __str__(self) -> str:
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"


def alternate(rounds: int, variants: Mapping[str, Callable[[], T]]) -> dict[str, list[T]]:
    """Runs each variant once per round, in an order that turns with the rounds; the results by variant, in rounds."""
    names = [*variants]
    results: dict[str, list[T]] = {name: [] for name in names}
    for number in range(rounds):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            results[name].append(variants[name]())
    return results


def ratio(figures: Sequence[float], reference: Sequence[float]) -> Ratio:
    """Of two variants measured in the same rounds."""
    assert len(figures) == len(reference) > 0
    pairs = [figure / other for figure, other in zip(figures, reference, strict=True)]
    low, high = interval(pairs)
    return Ratio(median(pairs), low, high, len(pairs))


def interval(values: Sequence[float]) -> tuple[float, float]:
    """The bootstrap interval of the median; always the same for the same values."""
    drawn = random.Random(len(values))  # not for secrets: the draw must repeat
    medians = sorted(median(drawn.choices(values, k=len(values))) for _ in range(_RESAMPLES))
    cut = int(_RESAMPLES * (1 - CONFIDENCE) / 2)
    return medians[cut], medians[-1 - cut]


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` of all do not exceed."""
    assert values, "there is no percentile of nothing"
    assert 0 < share <= 1
    ordered = sorted(values)
    # A hair less, so that 0.95 of 100 is the 95th value and not, by rounding, the 96th.
    return ordered[max(math.ceil(share * len(ordered) - 1e-9), 1) - 1]

"""Alternation, ratios and their intervals."""

import pytest

from benchmarks.blocks import alternate, interval, percentile, ratio


def test_variants_take_turns_and_the_order_turns_with_the_rounds() -> None:
    """No variant always runs first, when a machine is often faster."""
    order: list[str] = []
    results = alternate(3, {"a": lambda: order.append("a"), "b": lambda: order.append("b")})
    assert ["a", "b", "b", "a", "a", "b"] == order
    assert [3, 3] == [len(blocks) for blocks in results.values()]


def test_the_ratio_is_of_each_round() -> None:
    """A slowdown of the machine affects both sides of a round, so ratios do not change."""
    found = ratio([200, 200, 100, 100], [100, 100, 50, 50])
    assert (2.0, 2.0, 2.0, 4) == (found.value, found.low, found.high, found.rounds)


def test_one_outlier_does_not_move_the_ratio_but_shows_in_no_bound_either() -> None:
    """The median is robust against a single disturbed round."""
    found = ratio([10.0] * 19 + [100.0], [10.0] * 20)
    assert (1.0, 1.0, 1.0) == (found.value, found.low, found.high)


def test_the_interval_holds_the_median_and_widens_with_the_spread() -> None:
    """Uniform rounds result in a narrow interval, scattered ones in a wide one."""
    steady = interval([1.0 + n / 1000 for n in range(20)])
    scattered = interval([1.0 + n / 10 for n in range(20)])
    assert steady[0] <= 1.0095 <= steady[1]
    assert scattered[0] <= 1.95 <= scattered[1]
    assert steady[1] - steady[0] < 0.02 < 0.5 < scattered[1] - scattered[0]


def test_the_interval_repeats() -> None:
    """The same rounds have the same interval."""
    values = [1.0, 1.2, 0.9, 1.1, 1.05, 0.95]
    assert interval(values) == interval(values)


@pytest.mark.parametrize(("share", "expected"), [(0.5, 50), (0.99, 99), (1.0, 100), (0.001, 1), (0.95, 95)])
def test_percentiles_of_a_hundred(share: float, expected: float) -> None:
    """The smallest value that is not exceeded by at least that share."""
    assert expected == percentile([float(n) for n in range(100, 0, -1)], share)

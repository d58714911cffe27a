"""Metrics of one process, in Prometheus's form."""

import pytest

from icecore.metrics import _sizes


@pytest.mark.parametrize(
    ("sizes", "buckets"),
    [
        ({}, {"1": 0, "2": 0, "4": 0, "64": 0, "+Inf": 0}),
        ({1: 2, 2: 1}, {"1": 2, "2": 3, "4": 3, "64": 3, "+Inf": 3}),
        ({3: 1, 64: 1}, {"1": 0, "2": 0, "4": 1, "64": 2, "+Inf": 2}),
    ],
)
def test_a_size_is_counted_in_the_bucket_that_it_bounds(sizes: dict[int, int], buckets: dict[str, int]) -> None:
    """`le` means at most. The largest batch is in the last bucket with a bound."""
    samples = {(sample.name, sample.labels.get("le")): sample.value for sample in _sizes("size", "text", sizes).samples}
    assert buckets == {bound: samples["size_bucket", bound] for bound in buckets}
    assert sum(sizes.values()) == samples["size_count", None]
    assert sum(size * count for size, count in sizes.items()) == samples["size_sum", None]

"""The name cache is limited in bytes, however long the names are."""

import tracemalloc
from uuid import UUID, uuid4

from icecore.commands.execution.name_cache import NAMES_CACHED_BYTES_MAX, NameCache, TabularKey
from icecore.domain.claims import NameClaim

WAREHOUSE = UUID(int=1)


def claimed(name: str, levels: tuple[str, ...] = ("a",)) -> tuple[TabularKey, NameClaim]:
    return ("table", WAREHOUSE, levels, name), NameClaim("tabular", uuid4(), name, uuid4())


def test_many_long_names_take_no_more_than_the_bound() -> None:
    """Sixteen levels of 255 characters of four bytes each take 16 KB. The least recently used entries are removed first."""
    known = NameCache()
    tracemalloc.start()
    try:
        for number in range(2_000):
            called, claim = claimed(f"t{number}", tuple(f"{number}-{level}" + "\U0001f600" * 240 for level in range(16)))
            known.put(called, claim)
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert taken < 1.2 * NAMES_CACHED_BYTES_MAX
    assert claim == known.get(called)


def test_thousands_of_ordinary_names_are_known() -> None:
    known = NameCache()
    names = [claimed(f"orders_{number}", ("sales", "europe")) for number in range(8_000)]
    for called, claim in names:
        known.put(called, claim)
    assert [claim for _, claim in names] == [known.get(called) for called, _ in names]


def test_a_removed_name_takes_no_memory() -> None:
    """Entries that are removed or replaced are counted correctly."""
    known = NameCache()
    called, claim = claimed("t")
    for _ in range(3):
        known.put(called, claim)
        other = claim._replace(owner=uuid4())
        known.put(called, other)
        known.forget(called, claim)
        assert other == known.get(called)
        known.forget(called, other)
        assert (None, 0) == (known.get(called), known._cache.currsize)

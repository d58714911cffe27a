"""Which events change to what object a name refers, and so drop cached listings."""

from icecore.domain.events import topics
from icecore.queries.cache_invalidator import _NAMES_UNCHANGED

NAMES_CHANGE = {"created", "registered", "renamed", "dropped", "unregistered", "deleted", "undropped", "moved", "namespace-moved"}
"""The verbs of events that change names."""


def test_every_event_is_on_one_side() -> None:
    """A new event that changes no name is listed in queries/cache_invalidator.py. Otherwise it would empty the cache of listings."""
    changing = {topic for topic in topics() if topic.split(".")[1] in NAMES_CHANGE}
    assert set(topics()) - changing == _NAMES_UNCHANGED

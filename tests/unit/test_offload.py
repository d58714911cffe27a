"""What is known of a state before a decision: the size of its document, and whether deciding takes long."""

from dataclasses import replace
from uuid import UUID

import orjson
import pytest

from icecore.commands.execution import offload
from icecore.commands.execution.offload import is_large_state, known_document_size
from icecore.domain import view
from icecore.domain.documents import part_from_body
from icecore.domain.events import ViewCreated
from tests.unit.domain import test_namespace, test_table


def test_a_table_has_the_bytes_of_its_parts_as_far_as_they_are_known() -> None:
    """Parts that were neither read nor written are not serialized for this."""
    state = test_table.folded(test_table.CREATED)
    assert 0 == known_document_size(state)
    body = b'{"snapshot-id": 1}'
    read = {kind: tuple(part_from_body(kind, ordinal, body) for ordinal in (1, 2)) for kind in ("snapshots", "snapshot-log")}
    document = replace(state.document, parts={**state.document.parts, **read})
    assert 4 * len(body) == known_document_size(replace(state, document=document))


def test_a_view_has_the_bytes_of_its_metadata_and_a_namespace_those_of_its_properties() -> None:
    """As JSON."""
    ids = [UUID(int=n) for n in range(4)]
    created = ViewCreated(ids[3], "v", "v", "local|file:///w/v/", "file:///w/v/metadata/a.json", {"location": "file:///w/v"})
    state = view.evolve(None, ids[0], 1, ids[1], ids[2], created)
    assert len(b'{"location":"file:///w/v"}') == known_document_size(state)
    namespace = test_namespace.folded(test_namespace.CREATED)
    assert len(orjson.dumps(namespace.properties)) == known_document_size(namespace) > 0
    assert 0 == known_document_size(None)


def test_a_table_of_many_parts_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of every kind count."""
    state = test_table.folded(test_table.CREATED)
    count = sum(map(len, state.document.parts.values()))
    assert count > 1
    for bound, large in (count, False), (count - 1, True):
        monkeypatch.setattr(offload, "PARTS_INLINE_MAX", bound)
        assert large is is_large_state(state)
    assert not is_large_state(test_namespace.folded(test_namespace.CREATED))

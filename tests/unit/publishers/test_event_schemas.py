"""JSON Schemas: one per topic of the log, compared with the published files."""

from pathlib import Path

import jsonschema_rs
import orjson
import pytest

from icecore.domain.events import topics
from icecore.publishers.event_schemas import event_schemas, write_schemas

FOLDER = Path(__file__).parents[3] / "docs" / "reference" / "event-schemas"


def test_every_topic_of_the_log_has_a_schema() -> None:
    assert {f"io.icecore.{topic}" for topic in topics()} == set(event_schemas())


def test_the_published_schemas_are_those_of_the_types(tmp_path: Path) -> None:
    """Fails after a change of the types. `python -m icecore.publishers.event_schemas docs/reference/event-schemas` writes the schemas."""
    written = tmp_path / "schemas"
    written.mkdir()
    (written / "of-a-type-that-is-gone.json").touch()
    write_schemas(written)
    assert {file.name: file.read_bytes() for file in written.iterdir()} == {file.name: file.read_bytes() for file in FOLDER.glob("*.json")}


@pytest.mark.parametrize("name", sorted(event_schemas()))
def test_a_schema_is_valid_and_named_as_events_name_it(name: str) -> None:
    """`dataschema` of an event is the `$id` of its schema."""
    schema = event_schemas()[name]
    jsonschema_rs.meta.validate(schema)
    assert f"urn:icecore:schema:{name}" == schema["$id"]


def test_a_schema_has_the_name_of_its_event_as_title() -> None:
    """Four events have one type of data."""
    titles = {name: schema["title"] for name, schema in event_schemas().items()}
    assert "TableCommitted" == titles["io.icecore.table.committed.v1"]
    assert "NamespacePropertiesChanged" == titles["io.icecore.namespace.properties-changed.v1"]


def test_members_may_be_added_without_breaking_a_consumer() -> None:
    """A schema accepts an event of a later version of the same type."""
    assert [] == [name for name, schema in event_schemas().items() if b'"additionalProperties":false' in orjson.dumps(schema)]

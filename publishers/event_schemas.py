"""JSON Schemas of event data, generated from the types in event_data.py.

`python -m icecore.publishers.event_schemas FOLDER` writes them.
"""

import sys
from functools import cache
from pathlib import Path
from typing import Any

import orjson

from ..domain.events import topics
from .event_data import SCHEMA_PREFIX, TYPE_PREFIX, data_type

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


@cache
def event_schemas() -> dict[str, dict[str, Any]]:
    """The schema of each CloudEvent type (`io.icecore.table.committed.v1`), in the order of the types."""
    return {TYPE_PREFIX + topic: _schema(topic) for topic in sorted(topics())}


def _schema(topic: str) -> dict[str, Any]:
    made = data_type(topic).adapter().json_schema(by_alias=True, mode="serialization")
    # Members may be added later, which must not break a consumer's validation.
    _open(made)
    return {"$schema": _DIALECT, "$id": f"{SCHEMA_PREFIX}{TYPE_PREFIX}{topic}", **made, "title": _title(topic)}


def _title(topic: str) -> str:
    """`NamespacePropertiesChanged` for `namespace.properties-changed.v1`."""
    return topic.rpartition(".")[0].replace(".", "-").title().replace("-", "")


def _open(node: Any) -> None:
    if isinstance(node, dict):
        if node.get("additionalProperties") is False:
            del node["additionalProperties"]
        for member in node.values():
            _open(member)
    elif isinstance(node, list):
        for member in node:
            _open(member)


def write_schemas(folder: Path) -> None:
    """Writes one file per type, and removes files of types that no longer exist."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.json"):
        old.unlink()
    for name, schema in event_schemas().items():
        (folder / f"{name}.json").write_bytes(orjson.dumps(schema, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))


if __name__ == "__main__":
    write_schemas(Path(sys.argv[1]))

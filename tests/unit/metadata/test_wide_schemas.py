"""Schemas as wide as a request may have them: a thread that works on one does not block others."""

from typing import Any

import pytest

from icecore.domain.metadata.schemas import schema_key
from tests.fixtures.lock_holding import longest_hold_seconds

COLUMNS = 100_000
HOLD_SECONDS_MAX = 0.08


def flat(count: int) -> dict[str, Any]:
    fields = [{"id": number, "name": f"c{number}", "required": False, "type": "int"} for number in range(1, count + 1)]
    return {"type": "struct", "schema-id": 0, "identifier-field-ids": [1, 2], "fields": fields}


def nested(count: int) -> dict[str, Any]:
    return {**flat(0), "fields": [{"id": count + 1, "name": "all", "required": False, "type": {"type": "struct", **flat(count)}}]}


@pytest.mark.parametrize("schema", [flat(COLUMNS), nested(COLUMNS)], ids=["flat", "nested"])
def test_telling_a_wide_schema_apart_leaves_others_their_turns(schema: dict[str, Any]) -> None:
    assert longest_hold_seconds(lambda: schema_key(schema)) < HOLD_SECONDS_MAX


@pytest.mark.parametrize("count", [499, 500, 501, 1_001])
def test_wide_schemas_are_distinguished_wherever_they_differ(count: int) -> None:
    schema = flat(count)
    assert schema_key(schema) == schema_key({**flat(count), "schema-id": 7, "identifier-field-ids": [2, 1]})
    others = [
        {**schema, "fields": [*schema["fields"][:at], {**schema["fields"][at], "name": "other"}, *schema["fields"][at + 1 :]]}
        for at in range(0, count, 97)
    ]
    keys = {schema_key(other) for other in (schema, *others, flat(count - 1), flat(count + 1), {**schema, "identifier-field-ids": [1]})}
    assert len(others) + 4 == len(keys)


@pytest.mark.parametrize(("one", "other"), [(0.0, -0.0), (0, 0.0), (1, True), ("1", 1)])
def test_default_values_that_python_holds_for_equal_make_two_schemas(one: object, other: object) -> None:
    keys = {schema_key({**flat(1), "fields": [{**flat(1)["fields"][0], "initial-default": default}]}) for default in (one, other)}
    assert 2 == len(keys)

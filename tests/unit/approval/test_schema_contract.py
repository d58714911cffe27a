"""The schema contract: compatible changes pass, breaking changes are named, and the innermost namespace's properties count."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icecore.approval.contract import ALLOW, Hold, ObjectChange, ProposedChange, Refuse, Verdict
from icecore.approval.schema_contract import Contract, SchemaContract, breaches
from icecore.domain.metadata.schemas import SchemaIndex

PRIMITIVES = ("int", "long", "float", "double", "string", "date", "decimal(9, 2)", "boolean", "uuid")
WIDER = {"int": "long", "float": "double", "date": "timestamp", "decimal(9, 2)": "decimal(18, 2)"}
NARROWER = {"long": "int", "double": "float", "decimal(9, 2)": "decimal(5, 2)", "string": "long", "int": "string", "boolean": "int"}
ID = UUID(int=7)


def column(field_id: int, type_: Any = "long", *, required: bool = False, name: str | None = None) -> dict[str, Any]:
    return {"id": field_id, "name": name or f"c{field_id}", "required": required, "type": type_}


def schema(*fields: dict[str, Any], identifiers: Sequence[int] = ()) -> dict[str, Any]:
    made: dict[str, Any] = {"type": "struct", "schema-id": 0, "fields": [*fields]}
    return {**made, "identifier-field-ids": [*identifiers]} if identifiers else made


@st.composite
def schemas(draw: st.DrawFn) -> dict[str, Any]:
    """Columns of every kind, up to three levels deep, with ascending ids."""
    count = iter(range(1, 1_000))

    def type_of(depth: int) -> Any:
        kind = draw(st.sampled_from(["primitive"] * 3 + (["struct", "list", "map"] if depth < 3 else [])))
        match kind:
            case "struct":
                return {"type": "struct", "fields": [field(depth + 1) for _ in range(draw(st.integers(1, 3)))]}
            case "list":
                element_id = next(count)
                return {"type": "list", "element-id": element_id, "element-required": draw(st.booleans()), "element": type_of(depth + 1)}
            case "map":
                ids = {"key-id": next(count), "value-id": next(count)}
                return {"type": "map", **ids, "key": "string", "value-required": draw(st.booleans()), "value": type_of(depth + 1)}
        return draw(st.sampled_from(PRIMITIVES))

    def field(depth: int) -> dict[str, Any]:
        return column(next(count), type_of(depth), required=draw(st.booleans()))

    return schema(*(field(0) for _ in range(draw(st.integers(1, 4)))))


def structs(node: Any) -> list[list[dict[str, Any]]]:
    """The field lists of every struct in a schema, to be modified in place."""
    found = []
    if isinstance(node, dict):
        if node.get("type") == "struct":
            found.append(node["fields"])
            for field in node["fields"]:
                found += structs(field["type"])
        else:
            found += structs(node.get("element")) + structs(node.get("value"))
    return found


def fields(node: dict[str, Any]) -> list[dict[str, Any]]:
    return [field for each in structs(node) for field in each]


@st.composite
def compatible(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    """A schema, and the result of some compatible changes."""
    before = draw(schemas())
    after = copy.deepcopy(before)
    for number in range(draw(st.integers(0, 6))):
        field = draw(st.sampled_from(fields(after)))
        match draw(st.integers(0, 4)):
            case 0:
                draw(st.sampled_from(structs(after))).append(column(2_000 + number))
            case 1:
                added = column(2_000 + number, required=True)
                draw(st.sampled_from(structs(after))).append({**added, "initial-default": 7})
            case 2:
                field["required"] = False
            case 3 if isinstance(field["type"], str):
                field["type"] = WIDER.get(field["type"], field["type"])
            case _:
                draw(st.sampled_from(structs(after))).reverse()
                field["doc"] = "explained"
    return before, after


@st.composite
def breaking(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any], str]:
    """A compatible change plus one breaking change, and the expected word in the message."""
    before, after = draw(compatible())
    old = set(SchemaIndex(before).fields)
    places = [(each, field) for each in structs(after) for field in each if field["id"] in old]
    where, field = draw(st.sampled_from(places))
    original = SchemaIndex(before).fields[field["id"]]
    kinds = ["dropped", "renamed", "type", "added as required"]
    if not original["required"]:
        kinds.append("made required")
    kind = draw(st.sampled_from(kinds))
    match kind:
        case "dropped":
            where.remove(field)
        case "renamed":
            field["name"] = "another"
        case "made required":
            field["required"] = True
        case "added as required":
            where.append(column(3_000, required=True))
        case "type":
            nested = original["type"] if isinstance(original["type"], str) else original["type"]["type"]
            field["type"] = NARROWER.get(nested, "binary")
    return before, after, kind


@given(compatible())
def test_what_breaks_no_reader_passes(change: tuple[dict[str, Any], dict[str, Any]]) -> None:
    """Columns added, widened, made optional, reordered or documented, at every depth."""
    assert [] == breaches(*change, renames=False)


@given(breaking())
def test_what_breaks_readers_is_named(change: tuple[dict[str, Any], dict[str, Any], str]) -> None:
    """Among compatible changes, at every depth."""
    before, after, kind = change
    assert any(kind in breach for breach in breaches(before, after, renames=False))


def test_a_check_of_top_level_names_would_miss_what_this_one_finds() -> None:
    """Negative control: the property above can fail."""
    nested = {"type": "struct", "fields": [column(2), column(3)]}
    before, after = schema(column(1, nested)), schema(column(1, {**nested, "fields": [column(2)]}))
    assert {field["name"] for field in before["fields"]} == {field["name"] for field in after["fields"]}
    assert ["column c1.c3 is dropped"] == breaches(before, after, renames=False)


@pytest.mark.parametrize(
    ("before", "after", "messages"),
    [
        (schema(column(1), column(2)), schema(column(1)), ["column c2 is dropped"]),
        (schema(column(1, "long")), schema(column(1, "int")), ["column c1 changes its type from long to int"]),
        (
            schema(column(1, "decimal(9, 2)")),
            schema(column(1, "decimal(9, 3)")),
            ["column c1 changes its type from decimal(9, 2) to decimal(9, 3)"],
        ),
        (schema(column(1, "decimal(9, 2)")), schema(column(1, "decimal(38, 2)")), []),
        (schema(column(1, "int")), schema(column(1, "long")), []),
        (schema(column(1, "unknown")), schema(column(1, "string")), []),
        (schema(column(1)), schema(column(1, required=True)), ["column c1 is made required"]),
        (schema(column(1)), schema(column(1, name="d")), ["column c1 is renamed to d"]),
        # The same name with another id is another column, whose files do not contain the old one.
        (schema(column(1, name="a")), schema(column(2, name="a")), ["column a is dropped"]),
        (
            schema(column(1, required=True), column(2, required=True), identifiers=[1, 2]),
            schema(column(1, required=True), column(2, required=True), identifiers=[1]),
            ["column c2 is no longer an identifier field"],
        ),
        (
            schema(column(1, {"type": "list", "element-id": 2, "element-required": False, "element": "long"})),
            schema(column(1, {"type": "list", "element-id": 2, "element-required": True, "element": "int"})),
            ["column c1.element is made required", "column c1.element changes its type from long to int"],
        ),
        (
            schema(column(1, {"type": "struct", "fields": [column(2)]}), column(3)),
            schema(column(1, {"type": "struct", "fields": [column(2), column(3)]})),
            ["column c3 is moved to c1.c3"],
        ),
        (
            schema(column(1, {"type": "struct", "fields": [column(2)]})),
            schema(column(1, "string")),
            ["column c1.c2 is dropped", "column c1 changes its type from struct to string"],
        ),
    ],
)  # fmt: skip
def test_each_rule_in_words(before: dict[str, Any], after: dict[str, Any], messages: list[str]) -> None:
    """The messages for clients."""
    assert messages == breaches(before, after, renames=False)


def test_renames_may_be_allowed() -> None:
    """The id shows that it is the same column."""
    assert [] == breaches(schema(column(1, name="a")), schema(column(1, name="b")), renames=True)


def test_another_tables_ids_mean_nothing() -> None:
    """For a registered file of another table, columns are compared by name, even if ids are swapped or equal."""
    before = schema(column(1, "long", name="a"), column(2, "string", name="b"))
    swapped = schema(column(1, "string", name="b"), column(2, "long", name="a"))
    assert [] == breaches(before, swapped, renames=False, by_name=True)
    renamed = schema(column(1, "long", name="x"), column(2, "string", name="b"))
    assert ["column a is dropped"] == breaches(before, renamed, renames=True, by_name=True)


NONE: Mapping[str, str] = {}


@pytest.mark.parametrize(
    ("declared", "contract"),
    [
        ([NONE], Contract(binding=False, hold=False, renames=False)),
        ([{"icecore.schema-contract": "no-breaking-changes"}, NONE], Contract(binding=True, hold=False, renames=False)),
        (
            [{"icecore.schema-contract": "no-breaking-changes"}, {"icecore.schema-contract": "none"}],
            Contract(binding=False, hold=False, renames=False),
        ),
        (
            [
                {"icecore.schema-contract": "no-breaking-changes", "icecore.schema-contract-on-breach": "hold"},
                {"icecore.schema-contract-renames": "allow"},
            ],
            Contract(binding=True, hold=True, renames=True),
        ),
    ],
)  # fmt: skip
def test_the_innermost_word_counts(declared: list[Mapping[str, str]], contract: Contract) -> None:
    """Each property is inherited separately."""
    assert contract == Contract.of(declared)


def document(current: int, *known: dict[str, Any]) -> dict[str, Any]:
    numbered = [{**each, "schema-id": number} for number, each in enumerate(known)]
    return {"table-uuid": str(ID), "current-schema-id": current, "schemas": numbered}


async def reviewed(changed: ObjectChange, declared: Mapping[str, str], options: Mapping[str, Any] | None = None) -> Verdict:
    async def properties(levels: tuple[str, ...]) -> Sequence[Mapping[str, str]]:
        assert ("sales",) == levels
        return [declared]

    change = ProposedChange("updateTable", "anonymous", "r", ID, "demo", (changed,), None, properties)
    return await SchemaContract(options or {}).review(change)


def table(before: dict[str, Any] | None, after: dict[str, Any] | None) -> ObjectChange:
    return ObjectChange("table", ID, str(ID), ("sales", "t"), ("sales", "t"), before, after, ("table.committed.v1",))


OLD, NEW = schema(column(1)), schema(column(1), column(2))
BINDING = {"icecore.schema-contract": "no-breaking-changes"}


async def test_setting_the_current_schema_back_drops_what_came_since() -> None:
    """Although every schema stays in the table."""
    verdict = await reviewed(table(document(1, OLD, NEW), document(0, OLD, NEW)), BINDING)
    assert Refuse("sales.t: column c2 is dropped") == verdict


async def test_a_namespace_may_ask_for_approval() -> None:
    """The hook's option sets the time limit."""
    declared = {**BINDING, "icecore.schema-contract-on-breach": "hold"}
    verdict = await reviewed(table(document(0, NEW), document(0, OLD)), declared, {"hold_seconds": 60})
    assert Hold("sales.t: column c2 is dropped", 60.0) == verdict


@pytest.mark.parametrize(
    ("changed", "declared"),
    [
        (table(document(0, NEW), document(0, OLD)), {}),
        (table(None, document(0, OLD)), BINDING),
        (table(document(0, OLD), None), BINDING),
        (table(document(0, OLD), document(1, OLD, NEW)), BINDING),
    ],
)
async def test_what_no_contract_is_about(changed: ObjectChange, declared: Mapping[str, str]) -> None:
    """No contract, no table before, no table after, or no breaking change."""
    assert ALLOW == await reviewed(changed, declared)


async def test_an_unknown_value_is_refused_when_set_and_when_used() -> None:
    """A misspelt contract must not permit everything."""
    misspelt = {"icecore.schema-contract": "no-breaking-change"}
    verdict = await reviewed(table(document(0, NEW), document(0, OLD)), misspelt)
    assert isinstance(verdict, Refuse)
    assert "icecore.schema-contract is 'no-breaking-change'" in verdict.reason
    declared = ObjectChange("namespace", ID, None, None, ("sales",), None, {"properties": misspelt}, ("namespace.created.v1",))
    refused = await reviewed(declared, {})
    assert isinstance(refused, Refuse)
    assert (False, True) == (verdict.invalid, refused.invalid)
    # Other changes to the namespace are permitted.
    kept = {"properties": misspelt}
    other = ObjectChange("namespace", ID, None, ("sales",), ("sales",), kept, {"properties": {**misspelt, "a": "1"}}, ())
    assert ALLOW == await reviewed(other, {})


def test_options_are_read() -> None:
    """An unknown option is refused at the start."""
    with pytest.raises(ValueError, match="unknown option hold_second"):
        SchemaContract({"hold_second": 1})
    with pytest.raises(ValueError, match="more than 0"):
        SchemaContract({"hold_seconds": 0})

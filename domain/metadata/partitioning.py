"""Partition specs: parsing, binding to a schema, comparing and checking (table spec, "Partitioning")."""

from ..errors import BadRequest, IllegalArgument, ValidationFailed
from .fields import Json, get, get_int, get_string, next_id, show
from .schemas import SchemaIndex
from .transforms import VOID, bind_transform, can_transform, parse_transform
from .types import describe_type, is_primitive, type_id

INITIAL_SPEC_ID = 0
PARTITION_DATA_ID_START = 1_000
UNPARTITIONED: Json = {"spec-id": INITIAL_SPEC_ID, "fields": []}
UNPARTITIONED_LAST_ASSIGNED_ID = PARTITION_DATA_ID_START - 1


def parse_spec(node: object) -> Json:
    """Parses a spec with canonical transforms. Fields may have no `field-id` yet.

    A missing `spec-id` is 0. It is optional in the REST spec, and the catalog chooses the id.
    """
    if not isinstance(node, dict):
        raise BadRequest(f"Cannot parse spec from non-object: {show(node)}")
    spec_id = get_int(node, "spec-id") if node.get("spec-id") is not None else INITIAL_SPEC_ID
    return {"spec-id": spec_id, "fields": parse_spec_fields(get(node, "fields"))}


def parse_spec_fields(nodes: object) -> list[Json]:
    """Parses the fields of a spec. Either all have an id or none has."""
    if not isinstance(nodes, list):
        raise BadRequest(f"Cannot parse partition spec fields, not an array: {show(nodes)}")
    fields = [_parse_field(node) for node in nodes]
    missing = sum("field-id" not in field for field in fields)
    if missing not in (0, len(fields)):
        raise BadRequest(f"Cannot parse spec with missing field IDs: {missing} missing of {len(fields)} fields.")
    return fields


def _parse_field(node: object) -> Json:
    if not isinstance(node, dict):
        raise BadRequest(f"Cannot parse partition field, not an object: {show(node)}")
    name, transform, source_id = get_string(node, "name"), get_string(node, "transform"), get_int(node, "source-id")
    field: Json = {"name": name, "transform": transform, "source-id": source_id}
    if node.get("field-id") is not None:
        field["field-id"] = get_int(node, "field-id")
    field["transform"] = parse_transform(transform)
    return field


def bind_spec(spec: Json, index: SchemaIndex) -> Json:
    """The spec with all field ids assigned, checked against the schema of `index` (Java `UnboundPartitionSpec.bind`)."""
    bound = bind_spec_unchecked(spec, index)
    check_spec(bound, index, index)
    return bound


def bind_spec_unchecked(spec: Json, index: SchemaIndex) -> Json:
    """As `bind_spec`, without the check of the source columns, for historical specs. Names are checked."""
    fields: list[Json] = []
    names: set[str] = set()
    last_id = UNPARTITIONED_LAST_ASSIGNED_ID
    for field in spec["fields"]:
        source = index.fields.get(field["source-id"])
        if source is not None:
            bind_transform(field["transform"], source["type"])
        field_id = field["field-id"] if "field-id" in field else next_id("field-id", last_id)
        _check_name(field, index, names)
        last_id = max(last_id, field_id)
        fields.append(field if "field-id" in field else {**field, "field-id": field_id})
    return {"spec-id": spec["spec-id"], "fields": fields}


def check_names(spec: Json, index: SchemaIndex) -> None:
    """Refuses a spec with partition names that conflict with columns of the schema of `index`."""
    names: set[str] = set()
    for field in spec["fields"]:
        _check_name(field, index, names)


def _check_name(field: Json, index: SchemaIndex, names: set[str]) -> None:
    name, source_id = field["name"], field["source-id"]
    column = index.find_name(name)
    # If the source column was dropped, the spec may be historical, and its names may conflict with new columns.
    if column is not None and column["id"] != source_id and source_id in index.fields:
        raise IllegalArgument(f"Cannot create identity partition sourced from different field in schema: {name}")
    if name in names:
        raise IllegalArgument(f"Cannot use partition name more than once: {name}")
    names.add(name)


def check_spec(spec: Json, index: SchemaIndex, bound_to: SchemaIndex) -> None:
    """Refuses a spec with missing source columns or unsuitable types in the schema of `index`. The void transform accepts all types.

    bound_to -- the current schema when the request added the spec, or of the document before the request.
    """
    for field in spec["fields"]:
        transform = field["transform"]
        if transform == VOID:
            continue
        source = index.fields.get(field["source-id"])
        if source is None:
            raise ValidationFailed(f"Cannot find source column for partition field: {_describe_field(field)}")
        described = describe_type(source["type"])
        if not is_primitive(source["type"]):
            raise ValidationFailed(f"Cannot partition by non-primitive source field: {described}")
        bound = bound_to.fields.get(field["source-id"])
        if not can_transform(transform, source["type"], bound and bound["type"]):
            raise ValidationFailed(f"Invalid source type {described} for transform: {transform}")
        for ancestor in index.ancestors(field["source-id"]):
            if type_id(ancestor["type"]) != "struct":
                raise ValidationFailed(f"Invalid partition field parent: {describe_type(ancestor['type'])}")


def check_sequential_ids(spec: Json) -> None:
    """Format version 1 numbers partition fields 1000, 1001, … by position."""
    if any(field["field-id"] != PARTITION_DATA_ID_START + position for position, field in enumerate(spec["fields"])):
        raise ValidationFailed(f"Spec does not use sequential IDs that are required in v1: {_describe_spec(spec)}")


def spec_key(spec: Json) -> tuple[tuple[int, str, str], ...]:
    """A key that is equal for specs with the same sources, transforms and names in order. Field ids do not matter (Java
    `PartitionSpec.compatibleWith`).
    """
    return tuple((field["source-id"], field["transform"], field["name"]) for field in spec["fields"])


def last_assigned_field_id(spec: Json) -> int:
    """The highest partition field id, but at least 999, the value for an unpartitioned spec."""
    field_ids: list[int] = [field["field-id"] for field in spec["fields"]]
    return max(UNPARTITIONED_LAST_ASSIGNED_ID, *field_ids) if field_ids else UNPARTITIONED_LAST_ASSIGNED_ID


def _describe_field(field: Json) -> str:
    return f"{field['field-id']}: {field['name']}: {field['transform']}({field['source-id']})"


def _describe_spec(spec: Json) -> str:
    return "[" + "".join(f"\n  {_describe_field(field)}" for field in spec["fields"]) + ("\n]" if spec["fields"] else "]")

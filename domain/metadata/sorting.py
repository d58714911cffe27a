"""Sort orders: parsing, checking against a schema, and comparing (table spec, "Sort Orders")."""

from ..errors import BadRequest, IllegalArgument, ValidationFailed
from .fields import Json, get, get_int, get_string, show
from .schemas import SchemaIndex
from .transforms import bind_transform, can_transform, parse_transform
from .types import describe_type, is_primitive

UNSORTED_ORDER_ID = 0
INITIAL_SORT_ORDER_ID = 1
UNSORTED: Json = {"order-id": UNSORTED_ORDER_ID, "fields": []}


def parse_sort_order(node: object) -> Json:
    """A sort order in canonical form. Only the order without fields has id 0."""
    if not isinstance(node, dict):
        raise BadRequest(f"Cannot parse sort order from non-object: {show(node)}")
    order_id = get_int(node, "order-id")
    nodes = get(node, "fields")
    if not isinstance(nodes, list):
        raise BadRequest(f"Cannot parse sort order fields, not an array: {show(nodes)}")
    fields = [_parse_field(field) for field in nodes]
    if not fields and order_id != UNSORTED_ORDER_ID:
        raise IllegalArgument("Unsorted order ID must be 0")
    if fields and order_id == UNSORTED_ORDER_ID:
        raise IllegalArgument("Sort order ID 0 is reserved for unsorted order")
    return {"order-id": order_id, "fields": fields}


def _parse_field(node: object) -> Json:
    if not isinstance(node, dict):
        raise BadRequest(f"Cannot parse sort field, not an object: {show(node)}")
    transform, source_id = get_string(node, "transform"), get_int(node, "source-id")
    direction = get_string(node, "direction")
    if direction.lower() not in ("asc", "desc"):
        raise IllegalArgument(f"Invalid sort direction: {direction}")
    null_order = get_string(node, "null-order")
    if null_order.lower() not in ("nulls-first", "nulls-last"):
        raise IllegalArgument(f"Unexpected null order: {null_order}")
    return {
        "transform": parse_transform(transform),
        "source-id": source_id,
        "direction": direction.lower(),
        "null-order": null_order.lower(),
    }


def bind_sort_order(order: Json, index: SchemaIndex) -> None:
    """Refuses an order that does not fit the schema of `index` (Java `UnboundSortOrder.bind`)."""
    for field in order["fields"]:
        source = index.fields.get(field["source-id"])
        if source is not None:
            bind_transform(field["transform"], source["type"])
    check_sort_order(order, index, index)


def check_sort_order(order: Json, index: SchemaIndex, bound_to: SchemaIndex | None) -> None:
    """Refuses an order with missing source columns or unsuitable types in the schema of `index`.

    bound_to -- the current schema when the request added the order, or of the document before the request if it was the default order; else
        None.
    """
    for field in order["fields"]:
        source = index.fields.get(field["source-id"])
        if source is None:
            raise ValidationFailed(f"Cannot find source column for sort field: {_describe_field(field)}")
        described = describe_type(source["type"])
        if not is_primitive(source["type"]):
            raise ValidationFailed(f"Cannot sort by non-primitive source field: {described}")
        bound = bound_to.fields.get(field["source-id"]) if bound_to else None
        if not can_transform(field["transform"], source["type"], bound and bound["type"]):
            raise ValidationFailed(f"Invalid source type {described} for transform: {field['transform']}")


def sort_order_key(order: Json) -> tuple[tuple[str, int, str, str], ...]:
    """A key that is equal for orders with the same fields."""
    return tuple((field["transform"], field["source-id"], field["direction"], field["null-order"]) for field in order["fields"])


def _describe_field(field: Json) -> str:
    nulls = field["null-order"].upper().replace("-", " ")
    return f"{field['transform']}({field['source-id']}) {field['direction'].upper()} {nulls}"

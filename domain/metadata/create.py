"""The first metadata of a new table, with fresh ids (Java `TableMetadata.newTableMetadata`)."""

from collections.abc import Mapping
from itertools import count

from ..errors import BadRequest, IllegalArgument
from ..format_versions import FORMAT_VERSION_DEFAULT, FORMAT_VERSION_MAX
from .builder import SUPPORTED_VERSIONS, TableMetadataBuilder
from .columns import LAST_ADDED
from .fields import Json
from .partitioning import UNPARTITIONED, bind_spec, parse_spec
from .properties import (
    FORMAT_VERSION,
    PARQUET_COMPRESSION,
    PARQUET_COMPRESSION_OF_NEW_TABLES,
    RESERVED,
    check_new_table_properties,
    property_as_int,
)
from .schemas import INITIAL_SCHEMA_ID, SchemaIndex, assign_fresh_ids, parse_schema
from .sorting import UNSORTED, bind_sort_order, parse_sort_order


def new_table_metadata(
    *,
    table_uuid: str,
    location: str,
    schema: object,
    partition_spec: object,
    write_order: object,
    properties: Mapping[str, str],
    now_ms: int,
) -> Json:
    """The document of a new table without snapshots.

    schema, partition_spec, write_order -- as the client sent them (`CreateTableRequest`); spec and order may be None. Column ids are
    assigned anew from 1, level by level. Spec and order refer to them by column name.
    properties -- `format-version` chooses the version (default 2); reserved properties are not kept.
    """
    sent_schema = parse_schema(schema) if schema is not None else None
    sent_spec = parse_spec(partition_spec) if partition_spec is not None else UNPARTITIONED
    order = parse_sort_order(write_order) if write_order is not None else UNSORTED
    if sent_schema is None:
        raise BadRequest("Invalid schema: null")
    sent_index = SchemaIndex(sent_schema)
    spec = bind_spec(sent_spec, sent_index)
    bind_sort_order(order, sent_index)
    format_version = property_as_int(properties, FORMAT_VERSION, FORMAT_VERSION_DEFAULT)
    kept = {PARQUET_COMPRESSION: PARQUET_COMPRESSION_OF_NEW_TABLES}
    kept.update((key, value) for key, value in properties.items() if key not in RESERVED)

    fresh_schema = assign_fresh_ids(sent_schema, INITIAL_SCHEMA_ID, count(1).__next__)
    fresh_index = SchemaIndex(fresh_schema)
    spec_fields = [{key: field[key] for key in ("name", "transform")} for field in spec["fields"]]
    for field, sent in zip(spec_fields, spec["fields"], strict=True):
        field["source-id"] = _fresh_id(sent["source-id"], sent_index, fresh_index)
    order_fields = [{**field, "source-id": _fresh_id(field["source-id"], sent_index, fresh_index)} for field in order["fields"]]

    check_new_table_properties(kept, sent_index, sent_schema, format_version)
    if not 1 <= format_version <= FORMAT_VERSION_MAX:
        raise IllegalArgument(f"Unsupported format version: v{format_version} (supported: {SUPPORTED_VERSIONS})")
    builder = TableMetadataBuilder(None, now_ms=now_ms, format_version=format_version)
    builder.assign_uuid(table_uuid)
    builder.columns.add_schema(fresh_schema)
    builder.columns.set_current_schema(LAST_ADDED)
    builder.columns.add_spec({"spec-id": 0, "fields": spec_fields})
    builder.columns.set_default_spec(LAST_ADDED)
    builder.columns.add_sort_order({**order, "fields": order_fields})
    builder.columns.set_default_sort_order(LAST_ADDED)
    builder.set_location(location)
    builder.set_properties(kept)
    return builder.build(None)


def _fresh_id(source_id: int, sent_index: SchemaIndex, fresh_index: SchemaIndex) -> int:
    """The new id of the column with this name."""
    name = sent_index.names.get(source_id)
    column = fresh_index.find_name(name) if name is not None else None
    if column is None:
        raise IllegalArgument(f"Cannot find source column: {source_id}")
    fresh_id: int = column["id"]
    return fresh_id

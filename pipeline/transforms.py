"""What the landed tables get from the events: functions from DataFrames to DataFrames, without I/O."""

from .landed_tables import OBJECTS, TABLE_CHANGES, TABLE_COMMITS
from .session import DataFrame

_SNAPSHOT = "struct<`snapshot-id`:bigint,operation:string,summary:map<string,string>>"
_DATA = (
    "struct<`metadata-location`:string,location:string,`format-version`:int,`current-snapshot-id`:bigint,operation:string,"
    "summary:map<string,string>,`schema-id`:int,`default-spec-id`:int,`default-sort-order-id`:int,"
    f"`snapshots-added`:array<{_SNAPSHOT}>,`snapshots-removed`:int,"
    "`refs-set`:array<struct<name:string,type:string,`snapshot-id`:bigint>>,"
    "`properties-set`:map<string,string>,`properties-removed`:array<string>,actions:array<string>>"
)
"""The members of the data of table events that are used (docs/reference/events.md)."""
_WITH_METADATA = ("table.created", "table.registered", "table.overwritten", "table.committed")

_SUMS = {
    "added_data_files": "added-data-files",
    "removed_data_files": "deleted-data-files",
    "added_delete_files": "added-delete-files",
    "removed_delete_files": "removed-delete-files",
    "added_rows": "added-records",
    "removed_rows": "deleted-records",
    "added_bytes": "added-files-size",
    "removed_bytes": "removed-files-size",
    "added_position_delete_files": "added-position-delete-files",
    "removed_position_delete_files": "removed-position-delete-files",
}
_ADDED_TOTALS = {
    "added_data_files": "total-data-files",
    "added_delete_files": "total-delete-files",
    "added_rows": "total-records",
    "added_bytes": "total-files-size",
}
"""What a table that begins with a snapshot has added by it: by CREATE TABLE AS SELECT, or when it was registered."""
_BEGINS = "type <> 'table.committed' and d.`current-snapshot-id` is not null and coalesce(size(d.`snapshots-added`), 0) = 0"
_TOTALS = {
    "total_data_files": "total-data-files",
    "total_delete_files": "total-delete-files",
    "total_rows": "total-records",
    "total_bytes": "total-files-size",
}
_STATUS = """
case
  when type in ('table.dropped', 'view.dropped', 'namespace.dropped') and get_json_object(data, '$.expires-at') is not null
    then 'soft-deleted'
  when type in ('table.dropped', 'view.dropped', 'namespace.dropped', 'table.expired', 'view.expired', 'namespace.expired',
    'table.purge-cancelled') then 'dropped'
  when type = 'table.unregistered' then 'unregistered'
  when type = 'table.purged' then 'purged'
  when type in ('warehouse.deleted', 'project.deleted') then 'deleted'
  when type = 'warehouse.deactivated' then 'inactive'
  else 'live'
end
"""
_STARTS = (
    *("project.created", "project.renamed", "project.deleted"),
    *("warehouse.created", "warehouse.renamed", "warehouse.activated", "warehouse.deactivated", "warehouse.deleted"),
    *("namespace.created", "namespace.moved", "namespace.dropped", "namespace.undropped", "namespace.expired"),
    *("table.created", "table.registered", "table.renamed", "table.dropped", "table.undropped", "table.expired"),
    *("table.unregistered", "table.purged", "table.purge-cancelled"),
    *("view.created", "view.registered", "view.renamed", "view.dropped", "view.undropped", "view.expired"),
)
"""The types of events that change the name or status of an object."""


def table_commits(events: DataFrame, previous: DataFrame) -> DataFrame:
    """The rows of `table_commits` for these events; those of the pipeline's warehouse are left out.

    previous -- the last commits before the events: table_id and recorded_at.
    """
    members = _table_events(events).selectExpr(
        *_TABLE_COLUMNS,
        # The snapshot of a registered table may be of any operation, and is not of this commit.
        "if(type in ('table.registered', 'table.overwritten'), null,"
        " coalesce(d.operation, try_element_at(d.`snapshots-added`, -1).operation)) as operation",
        "d.`current-snapshot-id` as current_snapshot_id",
        f"if({_BEGINS}, 1, coalesce(size(d.`snapshots-added`), 0)) as snapshots_added",
        "coalesce(d.`snapshots-removed`, 0) as snapshots_removed",
        *[f"{_added(name, key)} as {name}" for name, key in _SUMS.items()],
        *[f"{_member(key)} as {name}" for name, key in _TOTALS.items()],
        "coalesce(d.summary, try_element_at(d.`snapshots-added`, -1).summary) as last_summary",
    )
    before = previous.selectExpr("table_id", "recorded_at as previous_at")
    in_batch = "lag(recorded_at) over (partition by table_id order by position)"
    return (
        members.join(before, "table_id", "left")
        .withColumn("seconds_since_previous", _expression(f"{_seconds('recorded_at')} - {_seconds(f'coalesce({in_batch}, previous_at)')}"))
        .withColumn("writer", _expression("nullif(concat_ws(' ', last_summary['engine-name'], last_summary['engine-version']), '')"))
        .select(*TABLE_COMMITS.columns)
    )


def table_changes(events: DataFrame) -> DataFrame:
    """The rows of `table_changes` for these events; those of the pipeline's warehouse are left out."""
    refs = "transform(d.`refs-set`, r -> named_struct('name', r.name, 'type', r.type, 'snapshot_id', r.`snapshot-id`))"
    return (
        _table_events(events)
        .selectExpr(
            *_TABLE_COLUMNS,
            "d.location as location",
            "d.`format-version` as format_version",
            "d.`schema-id` as schema_id",
            "d.`default-spec-id` as default_spec_id",
            "d.`default-sort-order-id` as default_sort_order_id",
            "coalesce(d.`properties-set`, map()) as properties_set",
            "coalesce(d.`properties-removed`, array()) as properties_removed",
            f"coalesce({refs}, array()) as refs_set",
            "coalesce(d.actions, array()) as actions",
        )
        .where(
            "location is not null or format_version is not null or schema_id is not null or default_spec_id is not null"
            " or default_sort_order_id is not null"
            " or cardinality(properties_set) > 0 or cardinality(properties_removed) > 0 or cardinality(refs_set) > 0"
        )
        .select(*TABLE_CHANGES.columns)
    )


def object_changes(events: DataFrame) -> DataFrame:
    """The rows of `objects` that these events begin, each ended by the next; those of the pipeline's warehouse are left out."""
    types = ", ".join(f"'{each}'" for each in _STARTS)
    following = "over (partition by stream_id order by position)"
    return (
        events.where(f"not of_pipeline and type in ({types})")
        .selectExpr(
            "stream_id as object_id",
            "kind",
            "project_id",
            "nullif(warehouse_id, '00000000-0000-0000-0000-000000000000') as warehouse_id",
            "path",
            f"{_STATUS} as status",
            "position as from_position",
            "recorded_at as from_time",
            f"lead(position) {following} as to_position",
            f"lead(recorded_at) {following} as to_time",
            "coalesce(get_json_object(data, '$.table.namespace.id'), get_json_object(data, '$.view.namespace.id')) as namespace_id",
        )
        .select(*OBJECTS.columns)
    )


def object_merge(changes: DataFrame) -> DataFrame:
    """The source of the MERGE into `objects`: the changes, to be inserted, and a row with `ends` for each object whose open row ends."""
    first = (
        changes.selectExpr("*", "row_number() over (partition by object_id order by from_position) as number")
        .where("number = 1")
        .selectExpr(
            *(f"{_ENDING.get(name, f'cast(null as {kind})')} as {name}" for name, kind in OBJECTS.columns.items()),
            "true as ends",
        )
    )
    return changes.selectExpr("*", "false as ends").unionByName(first)


_ENDING = {"object_id": "object_id", "to_position": "from_position", "to_time": "from_time"}

_TABLE_COLUMNS = (
    "position",
    "version",
    "recorded_at",
    "stream_id as table_id",
    "warehouse_id",
    "path[0] as warehouse",
    "array_join(slice(path, 2, size(path) - 2), '.') as namespace",
    "element_at(path, -1) as name",
    "type",
    "actor",
    "command_id",
)


def _table_events(events: DataFrame) -> DataFrame:
    """The events that gave a table a metadata file, with their data as `d`."""
    types = ", ".join(f"'{each}'" for each in _WITH_METADATA)
    return events.where(f"not of_pipeline and type in ({types})").withColumn("d", _expression(f"from_json(data, '{_DATA}')"))


def _added(name: str, key: str) -> str:
    """What the event added or removed: the sum over its snapshots, or the totals of the snapshot with which the table begins."""
    total = _ADDED_TOTALS.get(name)
    return f"if({_BEGINS}, {'0L' if total is None else f'coalesce({_member(total)}, 0L)'}, {_sum(key)})"


def _member(key: str) -> str:
    """A number in the summary of the current snapshot."""
    return f"try_cast(d.summary['{key}'] as bigint)"


def _sum(key: str) -> str:
    """Of the snapshots that the event added.

    Clients write the summaries: text that is not a number counts as 0, and a sum that overflows is NULL.
    """
    each = f"coalesce(try_cast(s.summary['{key}'] as bigint), 0L)"
    return f"aggregate(coalesce(d.`snapshots-added`, array()), 0L, (total, s) -> try_add(total, {each}))"


def _seconds(time: str) -> str:
    return f"unix_micros({time}) / 1e6"


def _expression(text: str) -> DataFrame:
    """A column from SQL. PySpark is imported when it is used, because it is an optional package."""
    from pyspark.sql import functions

    return functions.expr(text)

"""The statements of a Spark user, in order, each with its expected result.

A name in braces is replaced by a value that an earlier step remembered. Tables are in namespace `story` of the catalog `ice`, which is the
current one.
"""

from tests.acceptance.story import Step

NAMESPACES = (
    Step("use catalog", "USE ice"),
    Step("create namespace", "CREATE NAMESPACE story COMMENT 'a story'"),
    Step("create nested namespace", "CREATE NAMESPACE story.inner"),
    Step("list nested namespaces", "SHOW NAMESPACES IN story", rows=[["story.inner"]]),
    Step("set namespace properties", "ALTER NAMESPACE story SET PROPERTIES ('colour' = 'grey')"),
    Step("describe namespace", "DESCRIBE NAMESPACE EXTENDED story", among=[["Comment", "a story"], ["Properties", "((colour,grey))"]]),
    Step(
        "refuse another location of a namespace",
        "ALTER NAMESPACE story SET LOCATION 'file:///elsewhere'",
        refused="the location of a namespace cannot be changed or removed",
    ),
    Step("refuse an existing namespace", "CREATE NAMESPACE story", refused="already exists"),
)

ROWS = (
    Step(
        "create partitioned table",
        "CREATE TABLE story.trips (id BIGINT NOT NULL, city STRING, fare DOUBLE, at TIMESTAMP) USING iceberg PARTITIONED BY (days(at))"
        " TBLPROPERTIES ('format-version' = '2')",
    ),
    Step("refuse an existing table", "CREATE TABLE story.trips (id BIGINT) USING iceberg", refused="already exists"),
    Step("leave an existing table", "CREATE TABLE IF NOT EXISTS story.trips (id BIGINT) USING iceberg"),
    Step("location", "SELECT regexp_replace(file, '/metadata/.*', '') FROM story.trips.metadata_log_entries", remember="trips_location"),
    Step(
        "refuse a table in another's place",
        "CREATE TABLE IF NOT EXISTS story.within (id BIGINT) USING iceberg LOCATION '{trips_location}/within'",
        refused="Location is already taken",
    ),
    Step(
        "insert",
        "INSERT INTO story.trips VALUES (1, 'Oslo', 10.0, TIMESTAMP '2024-01-01 08:00:00'), (2, 'Lima', 20.0, TIMESTAMP '2024-01-02 09:00:00'),"
        " (3, 'Oslo', 30.0, TIMESTAMP '2024-01-02 10:00:00')",
    ),
    Step("select", "SELECT id, city, fare FROM story.trips ORDER BY id", rows=[[1, "Oslo", 10.0], [2, "Lima", 20.0], [3, "Oslo", 30.0]]),
    Step("first snapshot", "SELECT snapshot_id FROM story.trips.snapshots", remember="first_snapshot"),
    Step("first time", "SELECT CAST(committed_at AS STRING) FROM story.trips.snapshots", remember="first_time"),
    Step(
        "partitions",
        "SELECT CAST(partition.at_day AS STRING), record_count FROM story.trips.partitions ORDER BY 1",
        rows=[["2024-01-01", 1], ["2024-01-02", 2]],
    ),
    Step("update", "UPDATE story.trips SET fare = fare + 1 WHERE city = 'Oslo'"),
    Step("select updated", "SELECT id, fare FROM story.trips ORDER BY id", rows=[[1, 11.0], [2, 20.0], [3, 31.0]]),
    Step("delete", "DELETE FROM story.trips WHERE id = 2"),
    Step("select after delete", "SELECT id FROM story.trips ORDER BY id", rows=[[1], [3]]),
    Step(
        "merge",
        "MERGE INTO story.trips t USING (SELECT * FROM VALUES (1, 'Bern'), (4, 'Rome') AS s(id, city)) s ON t.id = s.id"
        " WHEN MATCHED THEN UPDATE SET t.city = s.city"
        " WHEN NOT MATCHED THEN INSERT (id, city, fare, at) VALUES (s.id, s.city, 40.0, TIMESTAMP '2024-01-03 11:00:00')",
    ),
    Step("select merged", "SELECT id, city FROM story.trips ORDER BY id", rows=[[1, "Bern"], [3, "Oslo"], [4, "Rome"]]),
    Step(
        "time travel by snapshot",
        "SELECT id, city FROM story.trips VERSION AS OF {first_snapshot} ORDER BY id",
        rows=[[1, "Oslo"], [2, "Lima"], [3, "Oslo"]],
    ),
    Step("time travel by time", "SELECT count(*) FROM story.trips TIMESTAMP AS OF '{first_time}'", rows=[[3]]),
    Step("insert overwrite", "INSERT OVERWRITE story.trips SELECT * FROM story.trips WHERE id < 4"),
    Step("roll back", "CALL ice.system.rollback_to_snapshot('story.trips', {first_snapshot})", among=[]),
    Step("select rolled back", "SELECT id, fare FROM story.trips ORDER BY id", rows=[[1, 10.0], [2, 20.0], [3, 30.0]]),
)

SCHEMAS = (
    Step("add column", "ALTER TABLE story.trips ADD COLUMN tip FLOAT"),
    Step("old rows have the new column", "SELECT id, tip FROM story.trips ORDER BY id", rows=[[1, None], [2, None], [3, None]]),
    Step("insert with new column", "INSERT INTO story.trips VALUES (5, 'Kyiv', 50.0, TIMESTAMP '2024-01-05 08:00:00', 0.5)"),
    Step("rename column", "ALTER TABLE story.trips RENAME COLUMN fare TO price"),
    Step("widen column", "ALTER TABLE story.trips ALTER COLUMN tip TYPE DOUBLE"),
    Step("comment column", "ALTER TABLE story.trips ALTER COLUMN city COMMENT 'where it began'"),
    Step("move column", "ALTER TABLE story.trips ALTER COLUMN tip AFTER id"),
    Step("add nested column", "ALTER TABLE story.trips ADD COLUMN place STRUCT<lat: DOUBLE, lon: DOUBLE>"),
    Step("add field to nested column", "ALTER TABLE story.trips ADD COLUMN place.height DOUBLE"),
    Step("drop nullable", "ALTER TABLE story.trips ALTER COLUMN id DROP NOT NULL"),
    Step("require again", "ALTER TABLE story.trips ALTER COLUMN id SET NOT NULL", refused="nullable"),
    Step("describe table", "DESCRIBE TABLE story.trips",
         among=[["id", "bigint", None], ["tip", "double", None], ["city", "string", "where it began"], ["price", "double", None],
                ["place", "struct<lat:double,lon:double,height:double>", None]]),
    Step("drop column", "ALTER TABLE story.trips DROP COLUMN place"),
    Step("select by new names", "SELECT id, tip, price FROM story.trips WHERE id = 5", rows=[[5, 0.5, 50.0]]),
    Step("old schema in the past", "SELECT id, fare FROM story.trips VERSION AS OF {first_snapshot} WHERE id = 1", rows=[[1, 10.0]]),
)  # fmt: skip

LAYOUT = (
    Step("add partition field", "ALTER TABLE story.trips ADD PARTITION FIELD bucket(4, id)"),
    Step(
        "insert under new spec",
        "INSERT INTO story.trips (id, tip, city, price, at) VALUES (6, NULL, 'Wien', 60.0, TIMESTAMP '2024-01-06 08:00:00')",
    ),
    Step("replace partition field", "ALTER TABLE story.trips REPLACE PARTITION FIELD days(at) WITH months(at)"),
    Step("drop partition field", "ALTER TABLE story.trips DROP PARTITION FIELD bucket(4, id)"),
    Step(
        "insert under last spec",
        "INSERT INTO story.trips (id, tip, city, price, at) VALUES (7, NULL, 'Graz', 70.0, TIMESTAMP '2024-02-07 08:00:00')",
    ),
    Step("files of three specs", "SELECT DISTINCT spec_id FROM story.trips.files ORDER BY spec_id", rows=[[0], [1], [3]]),
    Step("select across specs", "SELECT id FROM story.trips WHERE at >= TIMESTAMP '2024-01-06 00:00:00' ORDER BY id", rows=[[6], [7]]),
    Step("set write order", "ALTER TABLE story.trips WRITE ORDERED BY city, id DESC"),
    Step("set identifier fields", "ALTER TABLE story.ids SET IDENTIFIER FIELDS id", refused="ids"),
    Step("set table properties", "ALTER TABLE story.trips SET TBLPROPERTIES ('colour' = 'blue', 'size' = 'small')"),
    Step("unset table property", "ALTER TABLE story.trips UNSET TBLPROPERTIES ('size')"),
    Step("show table property", "SHOW TBLPROPERTIES story.trips ('colour')", rows=[["colour", "blue"]]),
    Step(
        "removed property is gone",
        "SHOW TBLPROPERTIES story.trips ('size')",
        rows=[["size", "Table ice.story.trips does not have property: size"]],
    ),
)

BRANCHES = (
    Step("create tag", "ALTER TABLE story.trips CREATE TAG `before` RETAIN 30 DAYS"),
    Step("create branch", "ALTER TABLE story.trips CREATE BRANCH audit"),
    Step(
        "write to branch",
        "INSERT INTO story.trips.branch_audit (id, tip, city, price, at) VALUES (8, NULL, 'Cork', 80.0, TIMESTAMP '2024-02-08 08:00:00')",
    ),
    Step("read branch", "SELECT count(*) FROM story.trips VERSION AS OF 'audit'", rows=[[7]]),
    Step("main is as before", "SELECT count(*) FROM story.trips", rows=[[6]]),
    Step(
        "refs", "SELECT name, type FROM story.trips.refs ORDER BY name", rows=[["audit", "BRANCH"], ["before", "TAG"], ["main", "BRANCH"]]
    ),
    Step("fast forward", "CALL ice.system.fast_forward('story.trips', 'main', 'audit')", among=[]),
    Step("main has moved", "SELECT count(*) FROM story.trips", rows=[[7]]),
    Step("read tag", "SELECT count(*) FROM story.trips VERSION AS OF 'before'", rows=[[6]]),
    Step("drop branch", "ALTER TABLE story.trips DROP BRANCH audit"),
    Step("drop tag", "ALTER TABLE story.trips DROP TAG `before`"),
    Step("only main is left", "SELECT name FROM story.trips.refs", rows=[["main"]]),
)

METADATA_TABLES = (
    Step("history", "SELECT count(*) FROM story.trips.history WHERE is_current_ancestor", rows=[[6]]),
    Step(
        "snapshots",
        "SELECT operation, count(*) FROM story.trips.snapshots GROUP BY operation ORDER BY operation",
        rows=[["append", 5], ["overwrite", 4]],
    ),
    Step("manifests", "SELECT count(*) > 0 FROM story.trips.manifests", rows=[[True]]),
    Step("entries", "SELECT count(*) FROM story.trips.entries WHERE status < 2", rows=[[6]]),
    Step("all data files", "SELECT count(*) > 6 FROM story.trips.all_data_files", rows=[[True]]),
    Step("metadata log", "SELECT count(*) > 20 FROM story.trips.metadata_log_entries", rows=[[True]]),
)

MAINTENANCE = (
    Step(
        "rewrite data files", "CALL ice.system.rewrite_data_files(table => 'story.trips', options => map('rewrite-all', 'true'))", among=[]
    ),
    Step("files of the last spec only", "SELECT DISTINCT spec_id FROM story.trips.files", rows=[[3]]),
    Step("rewrite manifests", "CALL ice.system.rewrite_manifests('story.trips')", among=[]),
    Step(
        "expire snapshots",
        "CALL ice.system.expire_snapshots(table => 'story.trips', older_than => TIMESTAMP '2100-01-01 00:00:00', retain_last => 1)",
        among=[],
    ),
    Step("one snapshot is left", "SELECT count(*) FROM story.trips.snapshots", rows=[[1]]),
    Step("rows are as before", "SELECT id FROM story.trips ORDER BY id", rows=[[1], [2], [3], [5], [6], [7], [8]]),
    Step("an expired snapshot is gone", "SELECT * FROM story.trips VERSION AS OF {first_snapshot}", refused="snapshot"),
)

COPIES = (
    Step("create table as select", "CREATE TABLE story.cities USING iceberg PARTITIONED BY (city) AS SELECT city, price FROM story.trips"),
    Step("select from CTAS", "SELECT count(*), sum(price) FROM story.cities", rows=[[7, 320.0]]),
    Step(
        "replace table as select",
        "CREATE OR REPLACE TABLE story.cities USING iceberg AS SELECT city, max(price) AS best FROM story.trips GROUP BY city",
    ),
    Step("select from RTAS", "SELECT city, best FROM story.cities ORDER BY best DESC LIMIT 2", rows=[["Cork", 80.0], ["Graz", 70.0]]),
    Step("replace keeps the history", "SELECT count(*) FROM story.cities.snapshots", rows=[[2]]),
    Step("truncate", "TRUNCATE TABLE story.cities"),
    Step("select from truncated", "SELECT count(*) FROM story.cities", rows=[[0]]),
)

VIEWS = (
    Step(
        "create view",
        "CREATE VIEW story.dear (id COMMENT 'whose', price) COMMENT 'the dear ones' AS SELECT id, price FROM story.trips WHERE price > 50",
    ),
    Step("select from view", "SELECT id FROM story.dear ORDER BY id", rows=[[6], [7], [8]]),
    Step("refuse an existing view", "CREATE VIEW story.dear AS SELECT 1 AS one", refused="already exists"),
    Step("refuse a view in a table's place", "CREATE VIEW story.trips AS SELECT 1 AS one", refused="already exists"),
    Step("replace view", "CREATE OR REPLACE VIEW story.dear AS SELECT id, price FROM story.trips WHERE price > 60"),
    Step("select from replaced view", "SELECT id FROM story.dear ORDER BY id", rows=[[7], [8]]),
    Step(
        "moment",
        """SELECT date_format(current_timestamp(), "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'")""",
    ),
    Step("set view properties", "ALTER VIEW story.dear SET TBLPROPERTIES ('colour' = 'red')"),
    Step("show view properties", "SHOW TBLPROPERTIES story.dear ('colour')", rows=[["colour", "red"]]),
    Step("show views", "SHOW VIEWS IN story", rows=[["story", "dear", False]]),
    Step("rename view", "ALTER VIEW story.dear RENAME TO story.dearest"),
    Step("select from renamed view", "SELECT count(*) FROM story.dearest", rows=[[2]]),
    Step("drop view", "DROP VIEW story.dearest"),
    Step("dropped view is gone", "SELECT * FROM story.dearest", refused="dearest"),
)

VERSION_3 = (
    Step(
        "create v3 table",
        "CREATE TABLE story.vectors (id BIGINT, word STRING) USING iceberg TBLPROPERTIES"
        " ('format-version' = '3', 'write.delete.mode' = 'merge-on-read', 'write.update.mode' = 'merge-on-read')",
    ),
    Step("insert into v3", "INSERT INTO story.vectors SELECT /*+ COALESCE(1) */ id, CAST(id AS STRING) FROM range(10)"),
    Step("delete by vector", "DELETE FROM story.vectors WHERE id IN (3, 5)"),
    Step("select past the vector", "SELECT count(*), sum(id) FROM story.vectors", rows=[[8, 37]]),
    Step("the vector is a Puffin file", "SELECT file_format, record_count FROM story.vectors.delete_files", rows=[["PUFFIN", 2]]),
    Step("delete again", "DELETE FROM story.vectors WHERE id = 7"),
    Step("one vector per file", "SELECT file_format, record_count FROM story.vectors.delete_files", rows=[["PUFFIN", 3]]),
    Step("rows know who they are", "SELECT _row_id FROM story.vectors WHERE id = 9", rows=[[9]]),
    Step("upgrade to v3", "ALTER TABLE story.trips SET TBLPROPERTIES ('format-version' = '3')"),
    Step(
        "insert after upgrade",
        "INSERT INTO story.trips (id, tip, city, price, at) VALUES (9, NULL, 'Bari', 90.0, TIMESTAMP '2024-02-09 08:00:00')",
    ),
    Step("select after upgrade", "SELECT count(*) FROM story.trips", rows=[[8]]),
)

NAMES = (
    Step(
        "refuse a catalog in a new name",
        "ALTER TABLE story.vectors RENAME TO ice.story.arrows",
        refused="Namespace does not exist: ice.story",
    ),
    Step("rename table", "ALTER TABLE story.vectors RENAME TO story.arrows"),
    Step("move table to another namespace", "ALTER TABLE story.arrows RENAME TO story.inner.arrows"),
    Step("select from moved table", "SELECT count(*) FROM story.inner.arrows", rows=[[7]]),
    Step("tables of the namespace", "SHOW TABLES IN story", rows=[["story", "cities", False], ["story", "trips", False]]),
    Step("refuse to drop a full namespace", "DROP NAMESPACE story.inner", refused="not empty"),
    Step("drop table", "DROP TABLE story.inner.arrows"),
    Step("insert before the purge", "INSERT INTO story.cities VALUES ('Oslo', 1.0)"),
    Step("files before the purge", "SELECT file_path FROM story.cities.files"),
    Step("purge table", "DROP TABLE story.cities PURGE"),
    Step("drop namespace", "DROP NAMESPACE story.inner"),
    Step("dropped table is gone", "SELECT * FROM story.inner.arrows", refused="arrows"),
    Step("one table is left", "SHOW TABLES IN story", rows=[["story", "trips", False]]),
)

PAST = (
    Step("tables of the past", "SHOW TABLES IN past.story", rows=[["story", "cities", False], ["story", "trips", False]]),
    Step("views of the past", "SHOW VIEWS IN past.story", rows=[["story", "dear", False]]),
    Step("rows of the past", "SELECT id FROM past.story.trips ORDER BY id", rows=[[1], [2], [3], [5], [6], [7], [8]]),
    Step("rows of the present", "SELECT count(*) FROM story.trips", rows=[[8]]),
    Step("refuse to write into the past", "INSERT INTO past.story.trips SELECT * FROM story.trips", refused="past"),
)
"""On the catalog `past`, the warehouse at the time that step `moment` selects, after all steps of STORY."""

STORY = (*NAMESPACES, *ROWS, *SCHEMAS, *LAYOUT, *BRANCHES, *METADATA_TABLES, *MAINTENANCE, *COPIES, *VIEWS, *VERSION_3, *NAMES)

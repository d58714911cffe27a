"""The Spark part of the demo. It runs in a separate environment.

Arguments: the catalog's settings as JSON, the path of Iceberg's runtime, the name of the statements.
"""

import json
import sys

from pyspark.sql import SparkSession

TOWN = (
    "SELECT name, born FROM icecore.town.people ORDER BY born",
    "CREATE TABLE icecore.town.visits (person STRING, place STRING, day DATE) PARTITIONED BY (place)",
    "INSERT INTO icecore.town.visits VALUES ('Ada', 'library', DATE '2024-05-01'), ('Grace', 'harbour', DATE '2024-05-02')",
    "MERGE INTO icecore.town.visits v USING (SELECT 'Ada' AS person, 'theatre' AS place) n ON v.person = n.person"
    " WHEN MATCHED THEN UPDATE SET v.place = n.place",
    "ALTER TABLE icecore.town.visits CREATE TAG may",
    "DELETE FROM icecore.town.visits WHERE person = 'Grace'",
    "SELECT person, place FROM icecore.town.visits VERSION AS OF 'may' ORDER BY person",
    "CREATE VIEW icecore.town.guests AS SELECT p.name, p.born, v.place"
    " FROM icecore.town.people p JOIN icecore.town.visits v ON p.name = v.person",
    "SELECT name, born, place FROM icecore.town.guests",
    "ALTER TABLE icecore.town.visits RENAME TO town.outings",
)

LOG = (
    "SELECT type, count(*) AS events FROM icecore.log.events WHERE NOT of_pipeline GROUP BY type ORDER BY type",
    "SELECT name, commits, added_rows, removed_rows, total_rows FROM icecore.log.table_growth ORDER BY name",
    "SELECT array_join(path, '.') AS name, status, date_format(from_time, 'HH:mm:ss') AS since, date_format(to_time, 'HH:mm:ss') AS until"
    " FROM icecore.log.objects WHERE kind = 'table' ORDER BY from_position",
)
STATEMENTS = {"town": TOWN, "log": LOG}


def main(catalog_settings: str, jar: str, statements: str) -> None:
    settings = {
        "spark.jars": jar,
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        **json.loads(catalog_settings),
    }
    builder = SparkSession.builder.master("local[2]").appName("icecore-demo")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    shown = "\033[32m{}\033[0m" if sys.stdout.isatty() else "{}"
    for statement in STATEMENTS[statements]:
        print(f"  {shown.format(statement)}", flush=True)
        for row in spark.sql(statement).collect():
            print("    " + ", ".join(map(str, row)), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])

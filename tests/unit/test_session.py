"""The settings a Spark session is given."""

import pytest

from icecore.pipeline.session import RUNTIME, catalog_settings, first_line, is_conflict, session_settings, submitted_settings


def test_a_catalog_is_named_with_its_properties() -> None:
    """Underscores replace characters that Python names cannot have."""
    expected = {
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.ice.type": "rest",
        "spark.sql.catalog.ice.uri": "http://127.0.0.1:8181/catalog",
        "spark.sql.catalog.ice.warehouse": "demo@7",
        "spark.sql.catalog.ice.s3.path-style-access": "true",
    }
    assert expected == catalog_settings("ice", "http://127.0.0.1:8181/catalog", "demo@7", s3__path_style_access="true")


def test_times_are_in_utc_whatever_is_set() -> None:
    """Plans of maintenance count commits by the hour, and the age of orphan files is a time in SQL."""
    given = {"spark.sql.session.timeZone": "America/New_York", "spark.ui.enabled": "true"}
    settings = session_settings("http://127.0.0.1:8181/catalog", "system", given)
    assert ("UTC", "true") == (settings["spark.sql.session.timeZone"], settings["spark.ui.enabled"])


def test_a_name_that_was_given_is_that_of_the_application() -> None:
    """`spark-submit --name` is such a setting."""
    place = ("http://127.0.0.1:8181/catalog", "system")
    assert "icecore-pipeline" == session_settings(*place, {})["spark.app.name"]
    assert "nightly" == session_settings(*place, {"spark.app.name": "nightly"})["spark.app.name"]


@pytest.mark.parametrize(
    ("given", "packages"),
    [
        ({}, RUNTIME),
        ({"spark.jars.packages": "org.apache.hadoop:hadoop-aws:3.4.2"}, f"{RUNTIME},org.apache.hadoop:hadoop-aws:3.4.2"),
        ({"spark.jars.packages": "a:b:1,org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.10.1"}, None),
        ({"spark.jars": "/opt/iceberg.jar"}, None),
    ],
)
def test_the_runtime_is_downloaded_with_other_packages(given: dict[str, str], packages: str | None) -> None:
    settings = session_settings("http://127.0.0.1:8181/catalog", "system", given)
    assert settings.get("spark.jars.packages") == (packages or given.get("spark.jars.packages"))


def test_a_process_of_its_own_was_not_submitted(monkeypatch: pytest.MonkeyPatch) -> None:
    """So PySpark is not imported before it is known to be there."""
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    assert {} == submitted_settings()


def test_a_task_that_could_not_read_its_source_says_why_in_a_line() -> None:
    """Without the traces of Spark, Java and Python."""
    error = Exception(
        "An error occurred while calling o1.collect.\n: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 failed"
        ": org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
        '  File "/x/kafka_copies.py", line 1, in messages\n'
        "icecore.pipeline.event_source.SourceError: Kafka is unreachable\n\n"
        "\tat org.apache.spark.api.python.BasePythonRunner\n"
        "Caused by: org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
    )
    assert "Kafka is unreachable" == first_line(error)


@pytest.mark.parametrize(
    ("cause", "expected"),
    [
        ("org.apache.iceberg.exceptions.CommitFailedException: Requirement failed", True),
        ("org.apache.iceberg.exceptions.ValidationException: Found new conflicting delete files", True),
        ("org.apache.iceberg.exceptions.NotFoundException: File does not exist", False),
    ],
)
def test_what_iceberg_refuses_because_of_another_writer_is_a_conflict(cause: str, expected: bool) -> None:
    """By the catalog, and before it is asked, as of a MERGE or a rewrite."""
    message = f"An error occurred while calling o1.sql.\n: org.apache.spark.SparkException: Writing failed\n\tat x\nCaused by: {cause}\n"
    assert expected == is_conflict(Exception(message))

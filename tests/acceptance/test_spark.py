"""Spark as users run it: the whole story on Spark 4.1 and on Spark 3.5 from PyPI alone, on local files, and on an S3 server."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.acceptance.spark_story import STORY, Result, Step, tell
from tests.servers.icecore import Icecore
from tests.servers.moto import moto_s3
from tests.servers.spark import Spark, SqlRefusedError, catalog_settings, spark_3_5, spark_4_1, spark_shell

STATEMENTS_MIN = 50
S3_WAREHOUSE = "lake"

pytestmark = pytest.mark.timeout(900)


@dataclass(frozen=True)
class Setting:
    """A Spark and where its tables lie."""

    name: str
    spark: Callable[[], Spark]
    on_s3: bool = False


SETTINGS = (
    Setting("spark 3.5 from PyPI alone", spark_3_5),
    Setting("spark 4.1", spark_4_1),
    Setting("spark 4.1 on S3", lambda: spark_4_1(s3=True), on_s3=True),
)


@pytest.fixture(scope="module")
def story(request: pytest.FixtureRequest, server: Icecore, scratch: Path) -> Iterator[dict[str, Result]]:
    """What became of each statement, on a catalog that holds what earlier settings left in other warehouses."""
    setting: Setting = request.param
    spark = setting.spark()
    directory = scratch / setting.name.replace(" ", "-")
    if setting.on_s3:
        with moto_s3(directory) as s3:
            server.create_warehouse(S3_WAREHOUSE, s3.storage_profile, s3.storage_credential)
            with spark_shell(spark, catalog_settings(server.catalog_uri, S3_WAREHOUSE, s3), directory, s3) as shell:
                yield tell(STORY, shell.sql, SqlRefusedError)
        return
    warehouse = directory.name
    files = directory / "warehouse"
    files.mkdir(parents=True)
    server.create_warehouse(warehouse, {"type": "local", "directory": str(files)})
    with spark_shell(spark, catalog_settings(server.catalog_uri, warehouse), directory) as shell:
        yield tell(STORY, shell.sql, SqlRefusedError)


def settings() -> pytest.MarkDecorator:
    return pytest.mark.parametrize("story", SETTINGS, indirect=True, ids=lambda setting: setting.name, scope="module")


@settings()
@pytest.mark.parametrize("step", STORY, ids=lambda step: step.name)
def test_statement(story: dict[str, Result], step: Step) -> None:
    """Each statement of the story answers what it should, or is refused as it should."""
    result = story[step.name]
    if step.refused is not None:
        assert result.error is not None
        assert step.refused in result.error
        return
    assert result.error is None
    if step.rows is not None:
        assert step.rows == result.rows
    for row in step.among or ():
        assert row in result.rows


@settings()
def test_log_rebuilds_what_spark_reads(story: dict[str, Result], server: Icecore) -> None:
    """`icecore verify` finds no difference after the story, nor after a rebuild."""
    assert STATEMENTS_MIN <= len(story)
    server.check_against_log()

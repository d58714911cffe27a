"""The commands `icecore pipeline …`."""

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from .command_settings import CommonOptions, Flag, Json
from .exit_codes import ExitCode
from .output import Output

pipeline = App(name="pipeline", help="Land (copy) the log in Iceberg tables, verify it and maintain tables, with Spark.")

Uri = Annotated[str | None, Parameter(name="--uri", help="URI of the catalog. Default: the server of the data folder.")]
WarehouseName = Annotated[str, Parameter(name="--warehouse", help="Name or id of the warehouse with the tables.")]
Conf = Annotated[
    list[str] | None,
    Parameter(
        name="--conf",
        negative=(),
        help="A Spark configuration property, KEY=VALUE. May be repeated. With spark-submit, use its own --conf.",
    ),
]


@pipeline.command
def ingest(
    *,
    from_kafka: str | None = None,
    from_files: str | None = None,
    uri: Uri = None,
    warehouse: WarehouseName = "system",
    follow: Flag = False,
    batch_events: int | None = None,
    conf: Conf = None,
    as_json: Json = False,
    options: CommonOptions = CommonOptions(),
) -> ExitCode:
    """Land the log in Iceberg tables, each event once. It is read from the database, unless an option names another source.

    Parameters
    ----------
    from_kafka
        Name of a Kafka sink in the settings. The events are read from its topic.
    from_files
        Read files with one CloudEvent per line: a folder, or a glob pattern.
    follow
        Continue with new events until SIGTERM or Ctrl-C.
    batch_events
        Events in one commit of a table (default 20000).
    """
    from . import pipeline_commands

    target = pipeline_commands.PipelineTarget(uri, warehouse, tuple(conf or ()))
    ingest_source = pipeline_commands.IngestSource(from_kafka, from_files)
    return pipeline_commands.ingest(
        options.settings(), Output(), target, ingest_source, follow=follow, batch_events=batch_events, as_json=as_json
    )


@pipeline.command
def verify(
    *,
    uri: Uri = None,
    warehouse: WarehouseName = "system",
    conf: Conf = None,
    as_json: Json = False,
    options: CommonOptions = CommonOptions(),
) -> ExitCode:
    """Compare the read models with the landed log and check the hash chain. The exit code is 1 if there is a difference."""
    from . import pipeline_commands

    target = pipeline_commands.PipelineTarget(uri, warehouse, tuple(conf or ()))
    return pipeline_commands.verify(options.settings(), Output(), target, as_json=as_json)


@pipeline.command
def report(
    *,
    output: Path = Path("icecore-report.html"),
    uri: Uri = None,
    warehouse: WarehouseName = "system",
    conf: Conf = None,
    options: CommonOptions = CommonOptions(),
) -> ExitCode:
    """Write an HTML page about the landed log: growth, hot tables, conflicts, small files, readers and unused tables.

    Parameters
    ----------
    output
        File to write; an existing file is replaced.
    """
    from . import pipeline_commands

    target = pipeline_commands.PipelineTarget(uri, warehouse, tuple(conf or ()))
    return pipeline_commands.report(options.settings(), Output(), target, output)


@pipeline.command
def maintain(
    *,
    run: Flag = False,
    shadow: Flag = False,
    any_time: Flag = False,
    rewrite_gib_max: float = 100.0,
    uri: Uri = None,
    warehouse: WarehouseName = "system",
    conf: Conf = None,
    as_json: Json = False,
    options: CommonOptions = CommonOptions(),
) -> ExitCode:
    """Plan the maintenance of tables from the landed log, and show the plan. Tables change only with --run.

    Parameters
    ----------
    run
        Run the plan. The exit code is 1 if a run failed.
    shadow
        Record in the log what would run, without running it.
    any_time
        Also plan runs in the hours in which tables are busy.
    rewrite_gib_max
        Limit on the estimated GiB that all runs together rewrite.
    """
    from . import maintenance_commands, pipeline_commands

    target = pipeline_commands.PipelineTarget(uri, warehouse, tuple(conf or ()))
    maintain_options = maintenance_commands.MaintainOptions(run=run, shadow=shadow, any_time=any_time, rewrite_gib_max=rewrite_gib_max)
    return maintenance_commands.maintain(options.settings(), Output(), target, maintain_options, as_json=as_json)

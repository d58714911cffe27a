"""docs/how-to/pipeline-clusters.md: its commands on a real Spark master and worker, its manifests against Spark's Kubernetes client."""

import contextlib
import json
import re
import shlex
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from subprocess import PIPE, STDOUT
from typing import Any

import pyarrow as pa
import pytest
import yaml
from pyiceberg.catalog.rest import RestCatalog

from icecore.cli import app
from icecore.exit_codes import ExitCode
from icecore.pipeline.session import RUNTIME
from icecore.settings import setting_names
from tests.acceptance.pipeline_jobs import SECONDS_MAX, python_module
from tests.fixtures.readme import pieces, properties
from tests.long_form import LONG
from tests.servers.icecore import PROGRAM, clean_environment
from tests.servers.paths import ROOT
from tests.servers.processes import free_port, listens, responds, running, stop
from tests.servers.spark import SHORT_LIVED, pipeline_environment, spark_4_1

PAGE = pieces((ROOT / "docs" / "how-to" / "pipeline-clusters.md").read_text())
INSTALLED = "/opt/icecore/bin/python"
IMAGE_FILE = "/opt/pipeline.py"
START_SECONDS_MAX = 120

pytestmark = pytest.mark.timeout(1_200)


@dataclass(frozen=True)
class SparkCluster:
    """Where a master with a worker is. port -- for applications. status_port -- for people."""

    port: int
    status_port: int
    folder: Path

    def adapted(self, name: str) -> str:
        """A block of the page with this cluster's addresses, this Python, and jars that are here already."""
        changes = {
            "--host spark-master --port 7077": f"--host 127.0.0.1 --port {self.port}",
            "spark-master:7077": f"127.0.0.1:{self.port}",
            INSTALLED: sys.executable,
            "/var/lib/spark": str(self.folder / "work"),
            f"--packages {RUNTIME}": f"--jars {','.join(map(str, spark_4_1().jars))} --conf spark.sql.shuffle.partitions=2",
        }
        block = PAGE[name]
        for before, after in changes.items():
            block = block.replace(before, after)
        return block

    def shell(self, *blocks: str) -> list[str]:
        """The command that runs blocks of the page in one shell."""
        return ["bash", "-e", "-c", "\n".join(map(self.adapted, ("spark variables", *blocks)))]

    def environment(self, **more: str) -> dict[str, str]:
        """With PySpark, as if it were installed beside Icecore; without settings of Icecore, except those given."""
        variables = {**clean_environment(), **pipeline_environment(spark_4_1()), **SHORT_LIVED, **more}
        del variables["PYSPARK_PYTHON"]
        return variables

    def ended_applications(self) -> list[dict[str, Any]]:
        """What the master says about them, newest first."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.status_port}/json/", timeout=30) as response:
            found: list[dict[str, Any]] = json.load(response)["completedapps"]
        return found


@pytest.fixture
def cluster(scratch: Path) -> Iterator[SparkCluster]:
    made = SparkCluster(free_port(), free_port(), scratch)
    worker_port = free_port()
    ports = {"SPARK_MASTER_WEBUI_PORT": str(made.status_port), "SPARK_WORKER_WEBUI_PORT": str(worker_port)}
    start = partial(running, seconds_max=START_SECONDS_MAX, environment=made.environment(**ports), directory=scratch)
    with contextlib.ExitStack() as opened:
        opened.enter_context(start(made.shell("spark master"), log=scratch / "master.log", ready=partial(listens, made.port)))
        registered = scratch / "worker.log"
        ready = lambda: registered.exists() and "Successfully registered" in registered.read_text()  # noqa: E731 - short
        opened.enter_context(start(made.shell("spark worker"), log=registered, ready=ready))
        yield made


@pytest.mark.skipif(not LONG, reason="takes four minutes: `make test-long` runs it")
def test_the_jobs_run_on_a_standalone_cluster(cluster: SparkCluster, database: str, scratch: Path) -> None:
    """With the page's commands. Executors have no settings, and the master knows the name and memory that `spark-submit` was given."""
    settings = {"ICECORE_DATABASE_URL": database, "ICECORE_DATA_DIR": str(scratch / "data")}
    of_server = {**settings, "ICECORE_SECRET_KEY": "A" * 43 + "="}
    port = free_port()
    uri = f"http://127.0.0.1:{port}"
    with running(
        [PROGRAM, "serve", "--port", str(port)], log=scratch / "serve.log", ready=partial(responds, f"{uri}/health"),
        seconds_max=START_SECONDS_MAX, environment=clean_environment() | of_server,
    ):  # fmt: skip
        for name in ("system", "lake"):
            (scratch / name).mkdir()
            profile = json.dumps({"type": "local", "directory": str(scratch / name)})
            command = [str(PROGRAM), "warehouse", "create", name, "--profile", profile]
            subprocess.run(command, check=True, env=clean_environment() | of_server, timeout=SECONDS_MAX, capture_output=True)
        catalog = RestCatalog("lake", uri=f"{uri}/catalog", warehouse="lake")
        catalog.create_namespace("sales")
        table = catalog.create_table("sales.orders", pa.schema([("id", pa.int64())]))
        for number in range(3):
            table.append(pa.table({"id": [number]}))

        def submitted(block: str, code: int = ExitCode.OK) -> str:
            """What the commands print. `spark-submit` prints the errors of the job on standard output, too."""
            command = [*cluster.shell()[:3], cluster.adapted("spark variables") + block]
            environment = cluster.environment(**settings)
            job = subprocess.Popen(command, env=environment, cwd=scratch, stdout=PIPE, stderr=STDOUT, text=True, start_new_session=True)
            try:
                output, _ = job.communicate(timeout=SECONDS_MAX)
            finally:
                stop(job, seconds_max=0)
            assert code == job.returncode, output[-4000:]
            return output

        block = cluster.adapted("spark submit").replace("http://catalog.internal:8181", uri)
        output = submitted(block)
        landed = RestCatalog("landed", uri=f"{uri}/catalog", warehouse="system")
        assert 4 == landed.load_table("log.table_commits").scan().to_arrow().num_rows
        assert "no difference" in output
        assert "no table needs maintenance" in output
        assert [("log-pipeline", "FINISHED", 2, 1_024)] * 3 == [
            (each["name"], each["state"], each["cores"], each["memoryperexecutor"]) for each in cluster.ended_applications()
        ]
        function = block[: block.index("submit ingest")]
        refused = submitted(f"{function}submit verify --uri {uri}/catalog --warehouse nowhere", ExitCode.USAGE)
        assert "Warehouse does not exist: nowhere" in refused


MANIFESTS = [*yaml.safe_load_all(PAGE["cron job"])]
JOB = next(each for each in MANIFESTS if each["kind"] == "CronJob")["spec"]["jobTemplate"]["spec"]
POD = JOB["template"]["spec"]
CONTAINERS = [*POD["initContainers"], *POD["containers"]]
SPARK_SETTINGS = properties(next(each for each in MANIFESTS if each["kind"] == "ConfigMap")["data"]["spark.conf"])
SUBMIT = shlex.split(PAGE["kubernetes submit"].replace("\\\n", " "))


def unknown_members(manifests: str) -> list[str]:
    found: list[str] = json.loads(python_module("tests.acceptance.kubernetes_models", manifests).stdout.splitlines()[-1])
    return found


def test_kubernetes_knows_every_member_of_the_manifests() -> None:
    """By the classes of the client that Spark uses. Members, versions and types that it does not know would be found."""
    wrong = (
        PAGE["cron job"]
        .replace("onExitCodes", "onExitCode")
        .replace("batch/v1", "batch/v2")
        .replace("backoffLimit: 2", "backoffLimit: two")
    )
    assert [] == unknown_members(PAGE["cron job"])
    assert [
        "CronJob: apiVersion must be batch/v1",
        "CronJob.spec.jobTemplate.spec.backoffLimit must be a java.lang.Integer",
        "CronJob.spec.jobTemplate.spec.podFailurePolicy.rules[0] has no member onExitCode",
    ] == unknown_members(wrong)


def job_arguments(arguments: list[str]) -> list[str]:
    """What follows the file of the pipeline; what is before it are options of spark-submit with one value each."""
    (place,) = [number for number, each in enumerate(arguments) if each.removeprefix("local://") == IMAGE_FILE]
    options = dict(zip(arguments[:place:2], arguments[1:place:2], strict=True))
    assert {"--properties-file", "--conf", "--master", "--deploy-mode", "--name"} >= options.keys()
    confs = [value for name, value in zip(arguments[:place:2], arguments[1:place:2], strict=True) if name == "--conf"]
    assert all(re.fullmatch(r"spark\.[\w.]+=\S+", each) for each in confs)
    return arguments[place + 1 :]


@pytest.mark.parametrize("arguments", [*[each["args"] for each in CONTAINERS], SUBMIT[1:]])
def test_icecore_knows_the_arguments(arguments: list[str]) -> None:
    app.parse_args(["pipeline", *job_arguments(arguments)], exit_on_error=False, print_error=False)


def test_names_of_the_manifests_fit_together() -> None:
    """The account, its rights, the image, the settings, the secret, and the command by hand."""
    kinds = {each["kind"]: each for each in MANIFESTS}
    account = kinds["ServiceAccount"]["metadata"]["name"]
    assert {account} == {POD["serviceAccountName"], kinds["RoleBinding"]["subjects"][0]["name"]}
    assert kinds["RoleBinding"]["roleRef"]["name"] == kinds["Role"]["metadata"]["name"]
    assert {SPARK_SETTINGS["spark.kubernetes.container.image"]} == {each["image"] for each in CONTAINERS}
    assert POD["volumes"][0]["configMap"]["name"] == kinds["ConfigMap"]["metadata"]["name"]
    file = f"{CONTAINERS[0]['volumeMounts'][0]['mountPath']}/{next(iter(kinds['ConfigMap']['data']))}"
    for container in CONTAINERS:
        assert file == container["args"][container["args"].index("--properties-file") + 1]
        named = set(re.findall(r"\$\((\w+)\)", " ".join(container["args"])))
        assert named <= {each["name"] for each in container["env"]}
    secrets = {each["name"]: each["valueFrom"]["secretKeyRef"] for each in CONTAINERS[0]["env"] if "secretKeyRef" in each["valueFrom"]}
    assert secrets.keys() <= set(setting_names())
    given = dict(each.split("=", 1) for each in SUBMIT if each.startswith("spark."))
    secret = secrets["ICECORE_DATABASE_URL"]
    assert f"{secret['name']}:{secret['key']}" == given["spark.kubernetes.driver.secretKeyRef.ICECORE_DATABASE_URL"]
    assert account == given["spark.kubernetes.authenticate.driver.serviceAccountName"]
    assert ("Never", [ExitCode.NO, ExitCode.USAGE]) == (POD["restartPolicy"], JOB["podFailurePolicy"]["rules"][0]["onExitCodes"]["values"])


def test_the_image_has_what_the_manifests_name() -> None:
    """The file of the pipeline, the Python, and Iceberg's runtime for this Spark."""
    image = PAGE["image"]
    _, artifact, version = RUNTIME.split(":")
    assert f"COPY --chmod=644 {artifact}-{version}.jar /opt/spark/jars/" in image
    assert f"FROM apache/spark:{artifact.split('-')[-1].split('_')[0]}." in image
    assert f"-scala{artifact.split('_')[-1]}-" in image
    assert image.count(INSTALLED) == 2
    assert f" {IMAGE_FILE} \\\n" in image
    assert {"/opt/spark/bin/spark-submit"} == {each["command"][0] for each in CONTAINERS}


def test_the_unit_of_the_schedule_starts_existing_commands_and_knows_the_exit_codes() -> None:
    """It does not try again after what a further try cannot change."""
    unit = PAGE["pipeline unit"]
    commands = re.findall(r"^ExecStart=/opt/icecore/bin/icecore (.+)$", unit, re.MULTILINE)
    assert ["ingest", "maintain"] == [command.split()[1] for command in commands]
    for command in commands:
        app.parse_args(shlex.split(command), exit_on_error=False, print_error=False)
    assert f"{ExitCode.NO:d} {ExitCode.USAGE:d}" == properties(unit)["RestartPreventExitStatus"]
    assert {"OnCalendar=hourly", "WantedBy=timers.target"} <= {*PAGE["pipeline timer"].splitlines()}

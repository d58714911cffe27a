"""docs/how-to/containers.md without a container runtime: its commands run with its settings, and its probes get a response."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml
from psycopg import sql
from psycopg.conninfo import make_conninfo

from icecore.cli import app
from icecore.settings import setting_names
from tests.fixtures.catalog import SECRET_KEY
from tests.fixtures.readme import pieces, properties
from tests.servers.icecore import PROGRAM, clean_environment
from tests.servers.paths import ROOT
from tests.servers.processes import free_port, responds, running

PAGE = pieces((ROOT / "docs" / "how-to" / "containers.md").read_text())
SECONDS_MAX = 120
INSTALL_SECONDS_MAX = 540
PORTS = {"8181", "9181"}

OBJECTS: list[dict[str, Any]] = list(yaml.safe_load_all(PAGE["kubernetes"]))
COMPOSE: dict[str, Any] = yaml.safe_load(PAGE["compose"])


def _pods() -> Iterator[tuple[str, dict[str, Any]]]:
    """Each object with pods, by its name, and its pods' spec."""
    return ((each["metadata"]["name"], each["spec"]["template"]["spec"]) for each in OBJECTS if each["kind"] in ("Job", "Deployment"))


CONTAINERS = {
    f"{name}/{container['name']}": container for name, pod in _pods() for container in (*pod.get("initContainers", ()), *pod["containers"])
}
COMMANDS = {
    **{name: container["args"] for name, container in CONTAINERS.items()},
    "compose": COMPOSE["services"]["icecore"]["command"],
    "compose health": COMPOSE["services"]["icecore"]["healthcheck"]["test"][2:],
    **{line: shlex.split(line.rpartition(" icecore ")[2]) for line in PAGE["docker run"].splitlines()},
    "image": re.findall(r'^CMD \["(\w+)"\]', PAGE["dockerfile"], re.MULTILINE),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_command_exists(name: str) -> None:
    """With these options."""
    app.parse_args(COMMANDS[name], exit_on_error=False, print_error=False)


def test_settings_exist() -> None:
    """In the manifests, the Compose file and the file of `docker run`."""
    named = {each["name"] for container in CONTAINERS.values() for each in container["env"]}
    named |= {*COMPOSE["services"]["icecore"]["environment"], *properties(PAGE["environment"])}
    assert set() == named - {*setting_names()}


def test_secrets_and_labels_exist() -> None:
    """Each reference names a Secret and its key; selectors match the pods; the Service names a port."""
    secrets = {each["metadata"]["name"]: each["stringData"] for each in OBJECTS if each["kind"] == "Secret"}
    for container in CONTAINERS.values():
        for each in container["env"]:
            if "valueFrom" in each:
                reference = each["valueFrom"]["secretKeyRef"]
                assert reference["key"] in secrets[reference["name"]]
    deployments = {each["metadata"]["name"]: each["spec"] for each in OBJECTS if each["kind"] == "Deployment"}
    for spec in deployments.values():
        assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]
    (service,) = [each["spec"] for each in OBJECTS if each["kind"] == "Service"]
    assert service["selector"] == deployments["icecore"]["selector"]["matchLabels"]
    ports = {port["name"] for port in CONTAINERS["icecore/icecore"]["ports"]}
    assert {port["targetPort"] for port in service["ports"]} | {probe["port"] for probe in _probes().values()} <= ports


def test_stops_have_the_time_of_the_grace_period() -> None:
    """20 seconds by default, for requests in progress."""
    times = [pod["terminationGracePeriodSeconds"] for name, pod in _pods() if name != "icecore-migrate"]
    times.append(int(COMPOSE["services"]["icecore"]["stop_grace_period"].removesuffix("s")))
    times += [int(found) for found in re.findall(r"--stop-timeout (\d+)", PAGE["docker run"])]
    assert 4 == len(times)
    assert min(times) > 20


def test_kubernetes_adds_no_variables_to_the_settings() -> None:
    """For the Service `icecore` it would set ICECORE_PORT and others, and Icecore refuses unknown variables with its prefix."""
    assert ["icecore"] == [each["metadata"]["name"] for each in OBJECTS if each["kind"] == "Service"]
    pods = {each["metadata"]["name"]: each["spec"]["template"]["spec"] for each in OBJECTS if "template" in each.get("spec", {})}
    assert dict.fromkeys(("icecore-migrate", "icecore", "icecore-worker"), False) == {
        name: pod.get("enableServiceLinks") for name, pod in pods.items()
    }


def test_image_is_built_from_an_ignored_rest() -> None:
    """No data, environment or history is sent to the build; the image of all files is the one that is built."""
    assert ".*\n" == PAGE["dockerignore"]
    assert "--tag icecore" in PAGE["build"]
    assert {"icecore"} == {container["image"] for container in CONTAINERS.values()} | {COMPOSE["services"]["icecore"]["image"]}


def _probes() -> Mapping[str, dict[str, Any]]:
    container = CONTAINERS["icecore/icecore"]
    return {name: container[name]["httpGet"] for name in ("startupProbe", "livenessProbe", "readinessProbe")}


@pytest.fixture
def roles(admin_dsn: str, empty_database: str) -> Iterator[Mapping[str, str]]:
    """The two roles of the page's URLs, on an empty database: what each key of a Secret contains."""
    names = ("icecore_owner", "icecore_server")
    database = psycopg.conninfo.conninfo_to_dict(empty_database)["dbname"]
    with psycopg.connect(admin_dsn, autocommit=True) as connection:
        for name in names:
            connection.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(name)))
        owner = sql.SQL("ALTER DATABASE {} OWNER TO {}").format(sql.Identifier(str(database)), sql.Identifier(names[0]))
        connection.execute(owner)
        owner_url, server_url = (make_conninfo(empty_database, user=name) for name in names)
        yield {"database-owner-url": owner_url, "database-url": server_url, "secret-key": SECRET_KEY}
        with psycopg.connect(empty_database, autocommit=True) as inside:
            for name in names:
                inside.execute(sql.SQL("REASSIGN OWNED BY {} TO CURRENT_USER").format(sql.Identifier(name)))
                inside.execute(sql.SQL("DROP OWNED BY {}").format(sql.Identifier(name)))
        for name in names:
            connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))


@pytest.fixture
def environment_of(roles: Mapping[str, str]) -> Callable[[str], dict[str, str]]:
    """The environment of a container, with these roles and other ports."""
    ports = {port: str(free_port()) for port in sorted(PORTS)}

    def environment(name: str) -> dict[str, str]:
        settings = {
            each["name"]: roles[each["valueFrom"]["secretKeyRef"]["key"]] if "valueFrom" in each else each["value"]
            for each in CONTAINERS[name]["env"]
        }
        if "ICECORE_METRICS_PORT" in settings:
            settings["ICECORE_METRICS_PORT"] = ports[settings["ICECORE_METRICS_PORT"]]
        return clean_environment() | settings | {"ICECORE_PORT": ports["8181"]}

    return environment


def _run(name: str, environment: Mapping[str, str]) -> None:
    done = subprocess.run(
        [PROGRAM, *CONTAINERS[name]["args"]], capture_output=True, text=True, timeout=SECONDS_MAX, env=environment, check=False
    )
    assert 0 == done.returncode, done.stdout + done.stderr


def _status(url: str, host: str) -> int:
    with urllib.request.urlopen(urllib.request.Request(url, headers={"Host": host}), timeout=10) as response:
        return int(response.status)


def test_manifests_migrate_serve_and_work(environment_of: Callable[[str], dict[str, str]], tmp_path: Path) -> None:
    """In the order of the manifests. The probes and the names of the Service get a response, and both processes stop with 0."""
    _run("icecore-migrate/migrate", environment_of("icecore-migrate/migrate"))
    for name in ("icecore/wait-for-db", "icecore-worker/wait-for-db"):
        _run(name, environment_of(name))
    serving = environment_of("icecore/icecore")
    url = f"http://127.0.0.1:{serving['ICECORE_PORT']}"
    server_log, worker_log = tmp_path / "server.log", tmp_path / "worker.log"
    with running(
        [PROGRAM, *CONTAINERS["icecore/icecore"]["args"]], log=server_log, seconds_max=SECONDS_MAX, environment=serving,
        ready=lambda: responds(f"{url}/readyz"),
    ) as server:  # fmt: skip
        for host in ("127.0.0.1", *serving["ICECORE_ALLOWED_HOSTS"].split(",")):
            for probe in _probes().values():
                assert 200 == _status(f"{url}{probe['path']}", host)
        with running(
            [PROGRAM, *CONTAINERS["icecore-worker/worker"]["args"]], log=worker_log, seconds_max=SECONDS_MAX,
            environment=environment_of("icecore-worker/worker"), ready=lambda: "worker_started" in worker_log.read_text(),
        ) as worker:  # fmt: skip
            pass
    assert (0, 0) == (server.returncode, worker.returncode), server_log.read_text() + worker_log.read_text()
    assert "worker_started" not in server_log.read_text()


def test_the_environment_of_docker_serves(roles: Mapping[str, str], tmp_path: Path) -> None:
    """The file of `docker run`; `icecore health` of the page finds the server."""
    given = properties(PAGE["environment"])
    own = {
        "ICECORE_DATABASE_URL": roles["database-url"], "ICECORE_DATABASE_OWNER_URL": roles["database-owner-url"],
        "ICECORE_SECRET_KEY": roles["secret-key"],
    }  # fmt: skip
    assert own.keys() == {name for name, value in given.items() if "…" in value}
    port = str(free_port())
    environment = clean_environment() | given | own
    (health,) = [line.rpartition(" icecore ")[2] for line in PAGE["docker run"].splitlines() if "health" in line]
    with running(
        [PROGRAM, "serve"], log=tmp_path / "log", seconds_max=SECONDS_MAX, environment=environment | {"ICECORE_PORT": port},
        ready=lambda: responds(f"http://127.0.0.1:{port}/readyz"),
    ):  # fmt: skip
        done = subprocess.run(
            [PROGRAM, *shlex.split(health.replace("8181", port))], env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert 0 == done.returncode, done.stderr


@pytest.mark.timeout(INSTALL_SECONDS_MAX + 60)
def test_commands_of_the_dockerfile(tmp_path: Path) -> None:
    """`pip` installs the locked packages and the wheel into an empty environment, where `icecore` then starts.

    COPY is done by hand, and the account is not created.
    """
    build, install = tmp_path / "build", tmp_path / "install"
    shutil.copytree(ROOT, build, ignore=shutil.ignore_patterns(PAGE["dockerignore"].strip(), "__pycache__"))
    first, second = re.split(r"^FROM python:3\.11-slim$", PAGE["dockerfile"].partition("\n")[2], flags=re.MULTILINE)
    for stage, folder in ((first, build), (second, install)):
        if folder is install:
            install.mkdir()
            (copied,) = re.findall(r"^COPY --from=build (.+) \./$", second, re.MULTILINE)
            for pattern in copied.split():
                for file in Path("/").glob(pattern.replace("/build", str(build), 1).removeprefix("/")):
                    shutil.copy(file, install)
        environment = tmp_path / f"environment-{folder.name}"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
        program = f"{sys.executable} -m pip --python {environment / 'bin' / 'python'}"
        for line in re.findall(r"^RUN (pip .+)$", stage, re.MULTILINE):
            command = f"{program} --quiet --disable-pip-version-check {line.removeprefix('pip ')}"
            done = subprocess.run(
                ["bash", "-c", command], cwd=folder, capture_output=True, text=True, timeout=INSTALL_SECONDS_MAX, check=False
            )
            assert 0 == done.returncode, done.stderr
    (entry_point,) = re.findall(r'^ENTRYPOINT \["(\w+)"\]', second, re.MULTILINE)
    version = subprocess.run(
        [entry_point, "--version"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
        env=os.environ | {"PATH": str(environment / "bin")},
    )  # fmt: skip
    assert (0, "0.1.0\n") == (version.returncode, version.stdout), version.stderr


def test_server_lock_has_the_versions_that_are_tested() -> None:
    """Each package of the image is in dev.lock, in the same version with the same hashes."""

    def locked(name: str) -> set[str]:
        text = (ROOT / "requirements" / name).read_text().replace(" \\\n", "")
        return {re.sub(r" ;[^-]*", "", line) for line in text.splitlines()}

    assert set() == locked("server.lock") - locked("dev.lock")

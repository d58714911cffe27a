"""The installed wheel, as a tool of uv, in a folder that contains packages with the names of our folders."""

import json
import os
import shlex
import subprocess
import sys
import time
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from icecore.data_folder import DataFolder
from requirements.environment import REQUIREMENTS, uv, uv_environment
from tests.fixtures.readme import pieces
from tests.tidy.test_packaging import FOLDERS

CHECKOUT = Path(__file__).parents[2]
INSTALLING = CHECKOUT / "docs" / "start" / "installing.md"
START_SECONDS_MAX = 60


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [str(uv()), "build", "--quiet", "--build-constraints", str(REQUIREMENTS / "build.lock"), "--out-dir", str(folder)]
    subprocess.run([*command, str(CHECKOUT)], check=True, env=uv_environment())
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the programs that the page's `uv tool install` made, here of the wheel."""
    folder = tmp_path_factory.mktemp("tool")
    places = {"UV_TOOL_DIR": str(folder / "tools"), "UV_TOOL_BIN_DIR": str(folder / "bin")}
    program, *documented, checkout = shlex.split(pieces(INSTALLING.read_text())["uv tool"])
    assert "uv" == program
    what = f"icecore{checkout.removeprefix('.')} @ {wheel.as_uri()}"
    command = [str(uv()), *documented, "--quiet", "--constraints", str(REQUIREMENTS / "dev.lock"), what]
    subprocess.run(command, check=True, env=uv_environment() | places)
    return folder / "bin"


@pytest.fixture
def crowded(open_directory: Path) -> Path:
    """A folder with packages of the same names; importing one of them fails."""
    folder = open_directory / "crowded"
    for name in sorted({*FOLDERS.values(), "tests", "benchmarks"} - {"icecore"}):
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text(f"raise RuntimeError('somebody else\\'s {name} was imported')\n")
    return folder


@pytest.fixture
def running(installed: Path, crowded: Path) -> Iterator[tuple[str, Path]]:
    """A server with two serving processes and a sink, started in that folder: its address and its folder of data."""
    data = crowded.parent / "data"
    (crowded / "icecore.toml").write_text('[sinks.out]\ntype = "stdout"\n')
    with (crowded.parent / "log").open("w") as log, (crowded.parent / "events").open("w") as events:
        process = subprocess.Popen(
            [installed / "icecore", "serve", "--data", data, "--port", "0", "--workers", "2"],
            cwd=crowded, env=os.environ | {"ICECORE_CONFIG": "icecore.toml"}, stdout=events, stderr=log,
        )  # fmt: skip
        try:
            deadline = time.monotonic() + START_SECONDS_MAX
            while (server := DataFolder(data).running_server()) is None or server.url is None:
                assert process.poll() is None, (crowded.parent / "log").read_text()
                assert time.monotonic() < deadline, (crowded.parent / "log").read_text()
                time.sleep(0.05)
            yield server.url, data
        finally:
            process.terminate()
            process.wait(60)


def test_the_wheel_holds_one_package_and_every_file_of_ours(wheel: Path) -> None:
    """And neither tests nor benchmarks."""
    names = zipfile.ZipFile(wheel).namelist()
    assert {"icecore", "icecore-0.1.0.dist-info"} == {name.partition("/")[0] for name in names}
    ours = set()
    for package, folder in FOLDERS.items():
        for path in (CHECKOUT / folder).rglob("*"):
            if path.is_file() and path.suffix != ".pyc":
                ours.add("/".join([*package.split("."), *path.relative_to(CHECKOUT / folder).parts]))
    assert ours == {name for name in names if name.startswith("icecore/")}


def test_it_serves_publishes_and_rebuilds_among_packages_of_other_people(running: tuple[str, Path], installed: Path, crowded: Path) -> None:
    """Two serving processes, the worker with its sink, and a rebuild with helper processes."""
    url, data = running
    prefix = json.loads(_response(f"{url}/catalog/v1/config?warehouse=demo"))["overrides"]["prefix"]
    _response(f"{url}/catalog/v1/{prefix}/namespaces", {"namespace": ["town"]})
    events = crowded.parent / "events"
    deadline = time.monotonic() + START_SECONDS_MAX
    while "town" not in events.read_text():
        assert time.monotonic() < deadline, (crowded.parent / "log").read_text()
        time.sleep(0.05)
    for command in ("rebuild", "verify"):
        done = subprocess.run([installed / "icecore", command, "--data", data], cwd=crowded, capture_output=True, text=True, timeout=120)
        assert 0 == done.returncode, done.stderr
    assert "somebody else" not in (crowded.parent / "log").read_text()


def test_python_runs_it_as_a_module(installed: Path, crowded: Path) -> None:
    """This puts the current folder first on the path."""
    python = (installed / "icecore").read_text().splitlines()[0].removeprefix("#!")
    done = subprocess.run([python, "-m", "icecore", "--version"], cwd=crowded, capture_output=True, text=True, timeout=60)
    assert (0, "0.1.0\n") == (done.returncode, done.stdout)


def test_the_packages_of_other_people_would_be_noticed(crowded: Path) -> None:
    """Negative control: an import by a bare name finds the other package."""
    done = subprocess.run([sys.executable, "-c", "import domain"], cwd=crowded, capture_output=True, text=True, timeout=60)
    assert "somebody else's domain was imported" in done.stderr


def _response(url: str, body: object = None) -> bytes:
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data, {"Content-Type": "application/json"}), timeout=30) as response:
        return bytes(response.read())


def test_first_commands_of_the_page(running: tuple[str, Path], installed: Path) -> None:
    """The version, and the health of a running server; the fixture is what its second command starts."""
    version, serve, health = pieces(INSTALLING.read_text())["first commands"].splitlines()
    assert serve.startswith("icecore serve --data /tmp/icecore-test ")
    environment = os.environ | {"PATH": f"{installed}{os.pathsep}{os.environ['PATH']}"}
    for command in (version, health.replace("/tmp/icecore-test", str(running[1]))):
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, env=environment, check=False)
        assert 0 == done.returncode, done.stderr
        assert done.stdout

"""A damaged data folder ends every command with one message that names the file, and an exit code, without a trace."""

import io
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from icecore.doctor import doctor
from icecore.exit_codes import CommandFailed, ExitCode
from icecore.log_database import opened_database
from icecore.serve import serve
from icecore.settings import Settings
from tests.servers.icecore import open_directory

FOLDER = "a folder"
CASES: list[tuple[str, bytes | str | None]] = [
    ("served.at", FOLDER),
    ("served.at", b"/\xff\xfe\n"),
    ("served.at", b"/x\0y\n"),
    ("secret.key", FOLDER),
    ("serving", FOLDER),
    ("postgres.users", FOLDER),
    ("postgres.lock", FOLDER),
    ("postgres.location", FOLDER),
    ("postgres.location", b""),
    ("postgres.location", b"postgres\n"),
    ("postgres.location", b"/x\0y\n"),
    ("postgres/data", b""),
    ("postgres/data/PG_VERSION", None),
    ("postgres/data/PG_VERSION", FOLDER),
    ("postgres/data/PG_VERSION", b""),
    ("postgres/data/PG_VERSION", b"\xff\xfe\n"),
]


@pytest.fixture(scope="module")
def made() -> Iterator[Path]:
    """A data folder whose Postgres does not run."""
    with open_directory() as directory:
        with opened_database(Settings(data_dir=directory / "data"), make=True):
            (directory / "data" / "serving").touch(0o600)
        yield directory / "data"


@pytest.fixture
def data(made: Path) -> Iterator[Path]:
    """The folder, which is as before at the end of a test."""
    kept = made.with_name("kept")
    shutil.copytree(made, kept, symlinks=True, copy_function=shutil.copy2)
    for path in [made, *made.rglob("*")]:
        shutil.chown(kept / path.relative_to(made), path.stat().st_uid, path.stat().st_gid)
    yield made
    shutil.rmtree(made)
    kept.rename(made)


def damage(path: Path, content: bytes | str | None) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content == FOLDER:
        path.mkdir()


@pytest.mark.parametrize(("name", "content"), CASES, ids=str)
def test_a_damaged_folder_is_refused_by_every_command(data: Path, name: str, content: bytes | str | None) -> None:
    """By `icecore serve`, by a command on the catalog, and by `icecore doctor`. A later attempt would not help."""
    settings = Settings(data_dir=data, port=0)
    damage(data / name, content)
    with pytest.raises(CommandFailed, match=str(data / name)) as by_serve:
        serve(settings)
    with pytest.raises(CommandFailed, match=str(data / name)) as by_command, opened_database(settings):
        pass
    assert [ExitCode.USAGE] * 2 == [by_serve.value.code, by_command.value.code]
    out = io.StringIO()
    assert ExitCode.NO == doctor(lambda: settings, Console(file=out), as_json=True)
    failed = [check["message"] for check in json.loads(out.getvalue()) if check["status"] == "failed"]
    assert [str(data / name) in message for message in failed] == [True]


PID_FILES = {
    "folder": FOLDER,
    "binary": b"\xff\xfe\0\n",
    "large": b"9" * 20 + b"\n",
    "long": b"9" * 5000,
    "superscript": "²\n".encode(),
    "zeros": bytes(100),
}


@pytest.mark.parametrize("content", PID_FILES.values(), ids=PID_FILES)
def test_a_damaged_pid_file_is_named_or_replaced(data: Path, content: bytes | str) -> None:
    """Postgres replaces a stale one, and refuses one that it does not understand, because its server might run."""
    damage(data / "postgres" / "data" / "postmaster.pid", content)
    refused: CommandFailed | None = None
    try:
        with opened_database(Settings(data_dir=data)):
            pass
    except CommandFailed as failure:
        refused = failure
    assert refused is None or ("postmaster.pid" in str(refused) and refused.code in (ExitCode.USAGE, ExitCode.DATABASE)), str(refused)


def test_a_file_in_place_of_the_socket_s_folder_is_named(data: Path) -> None:
    damage(data / "postgres" / "socket", b"")
    with pytest.raises(CommandFailed, match=f"{data}/postgres/socket is not a folder") as refused, opened_database(Settings(data_dir=data)):
        pass
    assert ExitCode.DATABASE == refused.value.code


def test_what_was_left_of_a_cluster_is_kept(data: Path) -> None:
    """The rename of a new cluster must not meet it."""
    damage(data / "postgres" / "data" / "PG_VERSION", None)
    before = {path.name for path in (data / "postgres" / "data").iterdir()}
    (data / "served.at").unlink()
    with pytest.raises(CommandFailed, match="PG_VERSION"), opened_database(Settings(data_dir=data)):
        pass
    assert before == {path.name for path in (data / "postgres" / "data").iterdir()}
    assert [] == [*(data / "postgres").glob("unfinished*")]

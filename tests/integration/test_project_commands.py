"""Projects at the command line, and waiting for the database."""

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from icecore.cli import run
from icecore.domain.project import DEFAULT_PROJECT_NAME, PROJECT_ID_DEFAULT
from tests.fixtures.catalog import SECRET_KEY


@pytest.fixture
def operator(database: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs a command, and returns its exit code and what it printed."""
    monkeypatch.setenv("ICECORE_DATABASE_URL", _url(database))
    monkeypatch.setenv("ICECORE_SECRET_KEY", SECRET_KEY)
    # The logs of the test process stay as they are.
    monkeypatch.setattr("icecore.command_settings.configure_logs_for", lambda settings: None)

    def call(*arguments: str) -> tuple[int, str]:
        code = run([*arguments])
        printed = capsys.readouterr()
        return code, printed.out + printed.err

    return call


def _url(dsn: str) -> str:
    parts = psycopg.conninfo.conninfo_to_dict(dsn)
    return f"postgresql://{parts['user']}@/{parts['dbname']}?host={parts['host']}&port={parts.get('port', 5432)}"


def test_an_operator_has_projects_at_the_command_line(operator: Any, tmp_path: Path) -> None:
    """Their warehouses are named with --project, or after the project."""
    project_id = str(uuid4())
    assert (0, f"Team  {project_id}\n") == operator("project", "create", "Team", "--id", project_id)
    code, printed = operator("project", "list", "--json")
    projects = [(str(PROJECT_ID_DEFAULT), DEFAULT_PROJECT_NAME), (project_id, "Team")]
    assert (0, projects) == (code, [(each["project-id"], each["project-name"]) for each in json.loads(printed)])
    assert f"Team             {project_id}" in operator("project", "list")[1]
    assert (0, f"Team B  {project_id}\n") == operator("project", "rename", "team", "Team B")
    code, printed = operator("project", "get", project_id, "--json")
    assert (0, {"project-id": project_id, "project-name": "Team B"}) == (code, json.loads(printed))
    assert (1, "icecore: Project does not exist: Team\n") == operator("project", "get", "Team")
    profile = json.dumps({"type": "local", "directory": str(tmp_path)})
    assert 0 == operator("warehouse", "create", "lake", "--profile", profile, "--project", "Team B")[0]
    assert "lake" in operator("warehouse", "list", "--project", project_id)[1]
    assert "lake" not in operator("warehouse", "list")[1]
    assert 0 == operator("warehouse", "rename", "Team B/lake", "sea")[0]
    assert 1 == operator("warehouse", "protect", "sea")[0], "the default project has none"
    assert 0 == operator("warehouse", "protect", "sea", "--project", "Team B")[0]
    assert 0 == operator("warehouse", "config", "sea", "--default", "rest-page-size=9", "--project", "Team B")[0]
    code, printed = operator("project", "delete", "Team B")
    assert (1, True) == (code, "Project is not empty: Team B; it contains a warehouse" in printed)
    assert 0 == operator("warehouse", "delete", "sea", "--force", "--project", "Team B")[0]
    assert (0, "") == operator("project", "delete", "Team B")
    assert (2, True) == (operator("project", "create", "a/b")[0], "must not contain '/'" in operator("project", "create", "a/b")[1])


def test_every_command_on_a_warehouse_takes_its_project(operator: Any, tmp_path: Path) -> None:
    assert 0 == operator("project", "create", "Team")[0]
    profile = json.dumps({"type": "local", "directory": str(tmp_path / "team")})
    assert 0 == operator("warehouse", "create", "Team/lake", "--profile", profile)[0]
    in_team = ("lake", "--project", "Team")
    new = json.dumps({"type": "local", "directory": str(tmp_path / "new")})
    for command in (
        ("warehouse", "get", *in_team),
        ("warehouse", "get", "Team/lake"),
        ("warehouse", "read-only", *in_team),
        ("warehouse", "read-only", "--off", *in_team),
        ("warehouse", "delete-profile", "--soft", "7d", *in_team),
        ("warehouse", "purge-default", *in_team),
        ("warehouse", "validate", *in_team),
        ("warehouse", "validate", "--new", "--profile", new, "sea", "--project", "Team"),
        ("warehouse", "validate", "--new", "--profile", new, "Team/sea"),
        ("table", "deleted", *in_team),
    ):
        code, printed = operator(*command)
        assert 0 == code, printed
    assert "soft deletion for 7d, purge by default" in operator("warehouse", "protect", *in_team)[1]
    dropped = str(uuid4())
    code, printed = operator("undrop", "lake", dropped, "--project", "Team")
    assert (1, True) == (code, f"no table, view or namespace with the id {dropped}" in printed), printed
    code, printed = operator("undrop", "lake", dropped)
    elsewhere = "Warehouse does not exist in the default project: lake; other projects have Team/lake"
    assert (1, True) == (code, elsewhere in printed), printed


def test_a_point_before_the_creation_of_a_warehouse_is_refused_in_its_own_words(operator: Any, tmp_path: Path) -> None:
    """Else the operator would be sent to other projects, although the warehouse is where it was looked for."""
    assert 0 == operator("project", "create", "Team")[0]
    for name in ("Team/lake", "lake"):
        profile = json.dumps({"type": "local", "directory": str(tmp_path / name)})
        assert 0 == operator("warehouse", "create", name, "--profile", profile)[0]
    assert (1, "icecore: Warehouse did not exist at 1: lake\n") == operator("warehouse", "get", "lake@1")


def test_a_warehouse_is_created_with_its_settings(operator: Any, tmp_path: Path) -> None:
    """Those of a request; `--json` prints what `get` prints, and the list is filtered."""
    profile = json.dumps({"type": "local", "directory": str(tmp_path / "lake")})
    settings = ("--soft", "7d", "--purge-default", "--allow", "3", "--allow", "2", "--default", "3", "--exact-names")
    code, printed = operator("warehouse", "create", "lake", "--profile", profile, *settings, "--json")
    created = json.loads(printed[printed.index("{") : printed.rindex("}") + 1])
    got = json.loads(operator("warehouse", "get", "lake", "--json")[1])
    assert (0, got) == (code, created)
    assert ({"type": "soft", "expiration-seconds": 7 * 86_400}, True, [2, 3], 3, True) == (
        got["delete-profile"],
        got["purge-default"],
        sorted(got["allowed-format-versions"]),
        got["default-format-version"],
        got["exact-names"],
    )
    profile = json.dumps({"type": "local", "directory": str(tmp_path / "sea")})
    code, printed = operator("warehouse", "create", "sea", "--profile", profile)
    assert (0, True) == (code, '{"warehouse-id":' in printed)
    assert 0 == operator("warehouse", "deactivate", "sea")[0]
    for status, names in ((), ["lake", "sea"]), (("--status", "active"), ["lake"]), (("--status", "inactive"), ["sea"]):
        code, printed = operator("warehouse", "list", *status, "--json")
        assert (0, names) == (code, [each["name"] for each in json.loads(printed)])
    assert got == json.loads(operator("warehouse", "list", "--json")[1])[0]


def test_the_reason_why_a_database_is_waited_for_is_said_at_once(
    operator: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A script that waits for a minute is otherwise silent."""
    monkeypatch.setattr("icecore.waiting_notice.NOTICE_SECONDS", 0.3)
    monkeypatch.setenv("ICECORE_DATABASE_URL", "postgresql://nobody:hunter2@127.0.0.1:1/none")
    _, printed = operator("wait-for-db", "--timeout-seconds", "2")
    said = printed + capsys.readouterr().err
    assert 1 == said.count("waiting for the database: The database cannot be reached: connection refused at 127.0.0.1:1\n"), said
    assert "hunter2" not in said


def test_a_database_is_waited_for(operator: Any, monkeypatch: pytest.MonkeyPatch, database: str) -> None:
    """Until it is reachable and migrated, or the time is over: the last reason is printed."""
    assert (0, "the database is ready\n") == operator("wait-for-db")
    with psycopg.connect(database, autocommit=True) as connection:
        newest = "delete from icecore.migrations where number = (select max(number) from icecore.migrations) returning name"
        ((name,),) = connection.execute(newest).fetchall()
    code, printed = operator("wait-for-db", "--timeout-seconds", "3")
    assert (3, True) == (code, f"_{name}: run" in printed)
    monkeypatch.setenv("ICECORE_DATABASE_URL", "postgresql://nobody@127.0.0.1:1/none")
    code, printed = operator("wait-for-db", "--timeout-seconds", "3")
    assert (3, True) == (code, "cannot be reached" in printed)
    monkeypatch.delenv("ICECORE_DATABASE_URL")
    code, printed = operator("wait-for-db")
    assert (2, True) == (code, "ICECORE_DATABASE_URL" in printed)

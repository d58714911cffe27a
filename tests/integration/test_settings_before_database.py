"""`icecore serve` checks its settings before it makes a folder or migrates a database, which no older version serves afterwards."""

import base64
import json
from pathlib import Path

import psycopg
import pytest

from icecore.exit_codes import ExitCode
from tests.fixtures.operator_commands import icecore
from tests.integration.test_program import icecore as in_process_of_its_own

ANOTHER_KEY = base64.b64encode(b"o" * 32).decode()
NATS = {"TYPE": "nats", "URL": "nats://127.0.0.1:1", "STREAM": "S"}
SAME = {f"ICECORE_SINKS__{name}__{field}": value for name in ("A", "B") for field, value in NATS.items()}
WRONG = {
    "two sinks of one destination": (SAME, "The sinks a and b have the same destination"),
    "no key": ({"ICECORE_SECRET_KEY": ""}, "Icecore needs a key"),
    "a malformed key": ({"ICECORE_SECRET_KEY": "x"}, "ICECORE_SECRET_KEY: the secret key"),
    "no such file of a previous key": ({"ICECORE_SECRET_KEY_FILES_PREVIOUS": "/nowhere"}, "ICECORE_SECRET_KEY_FILES_PREVIOUS"),
    "no such plug-in": ({"ICECORE_HOOKS__A__TYPE": "plugin", "ICECORE_HOOKS__A__PLUGIN": "nowhere"}, "nowhere"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_setting_leaves_the_database_as_it_is(name: str, empty_database: str) -> None:
    environment, said = WRONG[name]
    refused = icecore(empty_database, "serve", "--port", "0", **environment)
    assert ExitCode.USAGE == refused.returncode, refused.stderr
    assert said in refused.stderr
    with psycopg.connect(empty_database) as connection:
        assert (None,) == connection.execute("select to_regnamespace('icecore')").fetchone()


@pytest.mark.parametrize("name", ["two sinks of one destination", "a malformed key"])
def test_a_wrong_setting_makes_no_data_folder(name: str, open_directory: Path) -> None:
    environment, said = WRONG[name]
    refused = in_process_of_its_own("serve", "--port", "0", "--data", str(open_directory / "data"), **environment)
    assert (ExitCode.USAGE, True) == (refused.returncode, said in refused.stderr), refused.stderr
    assert [] == [*open_directory.iterdir()]


def test_a_key_of_another_database_applies_no_migration(database: str) -> None:
    """The credentials show it before."""
    profile = json.dumps({"type": "s3", "bucket": "lake", "region": "eu-central-1", "sts-enabled": False, "flavor": "aws"})
    credential = {"type": "s3", "credential-type": "access-key", "aws-access-key-id": "AKIA0", "aws-secret-access-key": "hunter2"}
    options = ("--profile", profile, "--credential", json.dumps(credential))
    made = icecore(database, "warehouse", "create", "lake", *options, ICECORE_SKIP_STORAGE_VALIDATION="true")
    assert 0 == made.returncode, made.stderr
    newest = "from icecore.migrations where number = (select max(number) from icecore.migrations)"
    with psycopg.connect(database, autocommit=True) as connection:
        before = connection.execute(f"delete {newest} returning number").fetchone()
        refused = icecore(database, "serve", "--port", "0", ICECORE_SECRET_KEY=ANOTHER_KEY)
        assert ExitCode.USAGE == refused.returncode, refused.stderr
        assert "The secret key decrypts no stored credential" in refused.stderr
        assert before != connection.execute(f"select number {newest}").fetchone()

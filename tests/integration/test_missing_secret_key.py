"""A data folder whose key file is missing: a new key is made only if no stored credential needs the missing one."""

import base64
import json
from pathlib import Path

import pytest

from icecore.exit_codes import ExitCode
from tests.fixtures.data_folders import make_data_folder
from tests.integration.test_program import icecore

PROFILE = json.dumps({"type": "s3", "bucket": "lake", "region": "eu-central-1", "sts-enabled": False, "flavor": "aws"})
CREDENTIAL = json.dumps({"type": "s3", "credential-type": "access-key", "aws-access-key-id": "AKIA0", "aws-secret-access-key": "hunter2"})
UNCHECKED = {"ICECORE_SKIP_STORAGE_VALIDATION": "true"}


@pytest.fixture
def data(open_directory: Path) -> Path:
    """The data folder of an empty log."""
    return make_data_folder(open_directory / "data")


def test_a_key_that_stored_credentials_need_is_not_made_anew(data: Path) -> None:
    """Commands that need the key are refused, others run. The credential can be entered again, with a new key."""
    made = icecore("warehouse", "create", "lake", "--profile", PROFILE, "--credential", CREDENTIAL, "--data", str(data), **UNCHECKED)
    assert 0 == made.returncode, made.stderr
    key = data / "secret.key"
    kept = key.read_bytes()
    key.unlink()
    for command in (["serve", "--port", "0"], ["worker"], ["warehouse", "list"], ["secrets", "rewrap"]):
        refused = icecore(*command, "--data", str(data))
        assert ExitCode.USAGE == refused.returncode, refused.stderr
        assert f"icecore: The key file {key} is missing" in refused.stderr
    assert f"failed   secret key: The key file {key} is missing" in icecore("doctor", "--data", str(data)).stdout
    assert 0 == icecore("verify", "--data", str(data)).returncode
    assert 0 == icecore("migrate", "--data", str(data)).returncode
    assert not key.exists()

    key.write_text(base64.b64encode(b"n" * 32).decode())
    again = ("warehouse", "credential", "lake", "--credential", CREDENTIAL, "--data", str(data))
    assert ExitCode.USAGE == icecore(*again, **UNCHECKED).returncode
    entered = icecore(*again, "--key-lost", **UNCHECKED)
    assert 0 == entered.returncode, entered.stderr
    assert "reads 1 credentials" in icecore("doctor", "--data", str(data)).stdout
    assert kept != key.read_bytes()


def test_a_key_that_nothing_needs_is_made_anew(data: Path) -> None:
    """Doctor says so, and changes nothing."""
    key = data / "secret.key"
    key.unlink()
    examined = icecore("doctor", "--data", str(data))
    assert (0, False) == (examined.returncode, key.exists()), examined.stdout
    assert f"warning  secret key: {key} is missing, and no credential is stored: the next command makes it" in examined.stdout
    assert 0 == icecore("warehouse", "list", "--data", str(data)).returncode
    assert key.exists()

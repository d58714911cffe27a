"""Warehouses with the server's own identity in a cloud, over HTTP and on the command line: refused unless settings permit them."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import structlog

from icecore.exit_codes import ExitCode
from tests.fixtures.aws_server import EXTERNAL_ID, AwsRelay, AwsServer, aws_relay, aws_server, no_aws_environment, role_profile
from tests.fixtures.catalog import SECRET_KEY, served_catalog
from tests.fixtures.cloud_server import ADLS_PROFILE, GCS_PROFILE, CloudServer, cloud_server, machine
from tests.fixtures.object_stores import S3_CREDENTIAL, S3Server, s3_profile
from tests.fixtures.rest_client import RestClient
from tests.integration.approval.program import serving
from tests.integration.test_program import children_of, icecore, serve, worker_processes
from tests.integration.test_warehouse_routes import KEY, NOWHERE, S3, Management

__all__ = ["aws_relay", "aws_server", "cloud_server", "machine", "no_aws_environment", "serve"]

SYSTEM = {"type": "s3", "credential-type": "aws-system-identity"}
WITH_ID = SYSTEM | {"external-id": EXTERNAL_ID}
ENABLED = {"enable_aws_system_credentials": True}
CLOUDS: list[tuple[str, dict[str, Any], dict[str, str]]] = [
    ("gcp", GCS_PROFILE, {"type": "gcs", "credential-type": "gcp-system-identity"}),
    ("azure", ADLS_PROFILE, {"type": "az", "credential-type": "azure-system-identity"}),
]
ROLE = {"assume-role-arn": "arn:aws:iam::123456789012:role/lake"}

pytestmark = pytest.mark.usefixtures("no_aws_environment")


@pytest.fixture
def environment(database: str, aws_server: AwsServer, aws_relay: AwsRelay, tmp_path: Path) -> dict[str, str]:
    """Of a program on a machine with an AWS identity."""
    return {
        "ICECORE_DATABASE_URL": database,
        "ICECORE_SECRET_KEY": SECRET_KEY,
        "AWS_EC2_METADATA_SERVICE_ENDPOINT": aws_relay.endpoint,
        "AWS_SKIP_SIGNATURE": "true",
        **aws_server.environment,
    }


@pytest.mark.parametrize(
    ("settings", "profile", "credential", "named"),
    [
        ({}, ROLE, WITH_ID, "ICECORE_ENABLE_AWS_SYSTEM_CREDENTIALS"),
        ({"s3_enable_direct_system_credentials": True}, {}, SYSTEM, "ICECORE_ENABLE_AWS_SYSTEM_CREDENTIALS"),
        (ENABLED, {}, WITH_ID, "ICECORE_S3_ENABLE_DIRECT_SYSTEM_CREDENTIALS"),
        (ENABLED, ROLE, SYSTEM, "ICECORE_S3_REQUIRE_EXTERNAL_ID_FOR_SYSTEM_CREDENTIALS"),
        (ENABLED, ROLE, WITH_ID, None),
        (ENABLED | {"s3_require_external_id_for_system_credentials": False}, ROLE, SYSTEM, None),
        (ENABLED | {"s3_enable_direct_system_credentials": True}, {}, SYSTEM, None),
    ],
)
def test_a_setting_that_is_missing_is_named(
    database: str, tmp_path: Path, settings: dict[str, Any], profile: dict[str, Any], credential: dict[str, Any], named: str | None
) -> None:
    """400 with the setting, or the warehouse."""
    with served_catalog(database, tmp_path / "demo", **NOWHERE, **settings) as server:
        client = Management(server.url)
        response = client.create("lake", S3 | profile, credential)
        client.close()
    if named is None:
        assert (201, SYSTEM) == (response.status, response.json["storage-credential-type"])
    else:
        assert (400, "BadRequestException") == (response.status, response.json["error"]["type"])
        assert named in response.json["error"]["message"]
    assert EXTERNAL_ID not in response.body.decode()


def test_a_warehouse_is_used_while_the_setting_is_on(
    database: str, tmp_path: Path, aws_server: AwsServer, aws_relay: AwsRelay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Created with its checks, used by a role's session; without the setting its tables get 503, and other warehouses are not touched."""
    for name, value in aws_server.environment.items():
        monkeypatch.setenv(name, value)
    permitted = {"warehouse_endpoints": (aws_relay.endpoint,)}
    profile = role_profile(aws_server, aws_relay.endpoint)
    with served_catalog(database, tmp_path / "demo", **ENABLED, **permitted) as server:
        management, client = Management(server.url), RestClient(server.url, "lake")
        created = management.create("lake", profile, WITH_ID)
        assert 201 == created.status, created.body
        assert "warnings" not in created.json
        assert 200 == client.create_namespace("a").status
        assert 200 == client.create_table(["a"], "t").status
        refused = management.create("other", role_profile(aws_server, aws_relay.endpoint), SYSTEM | {"external-id": "another's"})
        assert (400, "StoreCheckFailedException") == (refused.status, refused.json["error"]["type"])
        assert "AccessDenied" in refused.json["error"]["message"]
        management.close()
        client.close()
    assert {EXTERNAL_ID, "another's"} == {asked["ExternalId"] for asked in aws_relay.assumed}
    assert all(key is not None and key.startswith("ASIA") for key in aws_relay.keys)
    before = len(aws_relay.seen)
    with served_catalog(database, tmp_path / "demo", **permitted) as server:
        client, demo = RestClient(server.url, "lake"), RestClient(server.url, "demo")
        response = client.create_table(["a"], "u")
        assert (503, True) == (response.status, "ICECORE_ENABLE_AWS_SYSTEM_CREDENTIALS" in response.json["error"]["message"])
        assert 200 == demo.create_namespace("a").status
        assert 200 == demo.create_table(["a"], "t").status
        client.close()
        demo.close()
    assert before == len(aws_relay.seen)


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize(("cloud", "profile", "credential"), CLOUDS)
def test_a_warehouse_of_another_cloud_is_used_while_its_setting_is_on(
    database: str, tmp_path: Path, cloud_server: CloudServer, cloud: str, profile: dict[str, Any], credential: dict[str, str]
) -> None:
    """Its files are written with the identity's token; without the setting it is refused and nothing is requested."""
    enabled, named = {f"enable_{cloud}_system_credentials": True}, f"ICECORE_ENABLE_{cloud.upper()}_SYSTEM_CREDENTIALS"
    with served_catalog(database, tmp_path / "demo", skip_storage_validation=True, **enabled) as server:
        management, client = Management(server.url), RestClient(server.url, "lake")
        created = management.create("lake", profile, credential)
        assert (201, credential) == (created.status, created.json["storage-credential-type"]), created.body
        assert 200 == client.create_namespace("a").status
        assert 200 == client.create_table(["a"], "t").status
        management.close()
        client.close()
    assert cloud_server.expires_at.keys() == set(cloud_server.tokens)
    assert 1 == len(cloud_server.objects)
    before = len(cloud_server.seen)
    with served_catalog(database, tmp_path / "demo", skip_storage_validation=True) as server:
        management, client = Management(server.url), RestClient(server.url, "lake")
        refused = management.create("other", profile | {"key-prefix": "other"}, credential)
        assert (400, True) == (refused.status, named in refused.json["error"]["message"])
        response = client.create_table(["a"], "u")
        assert (503, True) == (response.status, named in response.json["error"]["message"])
        management.close()
        client.close()
    assert before == len(cloud_server.seen)


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize(("cloud", "profile", "credential"), CLOUDS)
def test_the_command_uses_another_cloud_only_with_its_setting(
    database: str, cloud_server: CloudServer, cloud: str, profile: dict[str, Any], credential: dict[str, str]
) -> None:
    """A real process, which reads the environment itself; `doctor` lists the bucket."""
    environment = {"ICECORE_DATABASE_URL": database, "ICECORE_SECRET_KEY": SECRET_KEY, "ICECORE_SKIP_STORAGE_VALIDATION": "true"}
    named = f"ICECORE_ENABLE_{cloud.upper()}_SYSTEM_CREDENTIALS"
    options = ["--profile", json.dumps(profile), "--credential", json.dumps(credential)]
    refused = icecore("warehouse", "create", "lake", *options, **environment)
    assert (ExitCode.USAGE, True) == (refused.returncode, named in refused.stderr)
    assert [] == cloud_server.seen
    enabled = environment | {named: "true"}
    made = icecore("warehouse", "create", "lake", *options, **enabled)
    assert 0 == made.returncode, made.stderr
    for settings, status in ((enabled, "ok"), (environment, "failed")):
        checks = {check["name"]: check for check in json.loads(icecore("doctor", "--json", **settings).stdout)}
        assert status == checks["warehouse lake"]["status"], checks
    assert cloud_server.expires_at.keys() == set(cloud_server.tokens)


@pytest.mark.parametrize(
    ("cloud", "kept"),
    [("GCP", {b"GOOGLE_APPLICATION_CREDENTIALS"}), ("AZURE", {b"AZURE_CLIENT_ID", b"IDENTITY_HEADER"})],
)
def test_children_have_only_what_names_the_identity(serve: Any, cloud: str, kept: set[bytes]) -> None:
    """Of the cloud whose setting is on. Other variables of the clouds are removed, such as keys."""
    names = ("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_BEARER_TOKEN", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET", "IDENTITY_HEADER")
    served = serve("--workers", "2", **dict.fromkeys(names, "x"), **{f"ICECORE_ENABLE_{cloud}_SYSTEM_CREDENTIALS": "true"})
    environments = [Path(f"/proc/{child}/environ").read_bytes() for child in children_of(served.process, b"icecore.")]
    assert 3 == len(environments)
    for each in environments:
        assert kept == {name.encode() for name in names} & {entry.partition(b"=")[0] for entry in each.split(b"\0")}


def test_the_command_creates_and_doctor_examines(environment: dict[str, str], aws_server: AwsServer, aws_relay: AwsRelay) -> None:
    """With the identity of their own environment, only if the setting is on."""
    options = ["--profile", json.dumps(role_profile(aws_server, aws_relay.endpoint)), "--credential", json.dumps(WITH_ID)]
    refused = icecore("warehouse", "create", "lake", *options, **environment)
    assert ExitCode.USAGE == refused.returncode
    assert "ICECORE_ENABLE_AWS_SYSTEM_CREDENTIALS" in refused.stderr
    assert [] == aws_relay.seen
    enabled = environment | {"ICECORE_ENABLE_AWS_SYSTEM_CREDENTIALS": "true"}
    made = icecore("warehouse", "create", "lake", *options, **enabled)
    assert 0 == made.returncode, made.stderr
    assert ["write", "read", "list", "delete"] == [line.split()[0] for line in made.stderr.splitlines()]
    for settings, status in ((enabled, "ok"), (environment, "failed")):
        checks = {check["name"]: check for check in json.loads(icecore("doctor", "--json", **settings).stdout)}
        assert status == checks["warehouse lake"]["status"], checks
    assert "ICECORE_ENABLE_AWS_SYSTEM_CREDENTIALS" in checks["warehouse lake"]["message"]


def test_without_the_setting_the_program_has_no_identity(environment: dict[str, str], aws_server: AwsServer, aws_relay: AwsRelay) -> None:
    """A warehouse without a credential sends anonymous requests to its store, and none to the metadata service."""
    profile = role_profile(aws_server, aws_relay.endpoint)
    for settings in (environment, {name: value for name, value in environment.items() if name not in aws_server.environment}):
        refused = icecore("warehouse", "create", "lake", "--profile", json.dumps(profile), **settings)
        assert ExitCode.USAGE == refused.returncode
        assert "the check 'write'" in refused.stderr
    assert {None} == set(aws_relay.keys)
    assert [] == [request.path for request in aws_relay.seen if request.path.startswith("/latest/")]


def test_children_have_the_identity_only_with_the_setting(serve: Any, aws_server: AwsServer) -> None:
    """And no other variable of AWS, such as a switch of requests to stores."""
    served = serve("--workers", "2", ICECORE_ENABLE_AWS_SYSTEM_CREDENTIALS="true", AWS_SKIP_SIGNATURE="true", **aws_server.environment)
    assert 2 == len(worker_processes(served))
    environments = [Path(f"/proc/{child}/environ").read_bytes() for child in children_of(served.process, b"icecore.")]
    assert [True] * 3 == [b"AWS_ACCESS_KEY_ID" in each for each in environments]
    assert not any(b"AWS_SKIP_SIGNATURE" in each for each in environments)


@pytest.mark.parametrize(("cloud", "library"), [("aws", "botocore"), ("gcp", "google"), ("azure", "azure")])
def test_the_client_library_is_needed(environment: dict[str, str], tmp_path: Path, cloud: str, library: str) -> None:
    """The message says how to install it. Without the setting, it is not imported."""
    (tmp_path / f"{library}.py").write_text("raise ImportError('not installed')\n")
    without = environment | {"PYTHONPATH": str(tmp_path)}
    refused = icecore("warehouse", "list", **without, **{f"ICECORE_ENABLE_{cloud.upper()}_SYSTEM_CREDENTIALS": "true"})
    assert ExitCode.USAGE == refused.returncode
    assert f"install Icecore with the extra {cloud}" in refused.stderr
    assert 0 == icecore("warehouse", "list", **without).returncode


def test_fields_without_effect_are_warned_of(database: str, tmp_path: Path) -> None:
    """In the response, once in the log, and in the response to the same request again; not where the value describes what happens."""
    with served_catalog(database, tmp_path / "demo", **NOWHERE) as server:
        client = Management(server.url)
        plain = client.create("plain", S3 | {"sts-enabled": False, "remote-signing-enabled": False}, KEY)
        assert (201, False) == (plain.status, "warnings" in plain.json)
        fields = {"sts-enabled": True, "remote-signing-enabled": True, **ROLE}
        with structlog.testing.capture_logs() as logs:
            responses = [
                client.create("lake", S3 | {"bucket": "other"} | fields, KEY, key="019ab5e0-0000-7000-8000-000000000001") for _ in range(2)
            ]
        loaded = client.call_root("GET", f"/{responses[0].json['id']}").json
        client.close()
    assert [201, 201] == [response.status for response in responses]
    assert responses[0].json == responses[1].json == loaded | {"warnings": responses[0].json["warnings"]}
    assert ["sts-enabled", "remote-signing-enabled", "assume-role-arn"] == [said.split()[1] for said in responses[0].json["warnings"]]
    [record] = [record for record in logs if record["event"] == "storage_fields_unused"]
    assert ("warning", "lake", responses[0].json["warnings"]) == (record["log_level"], record["warehouse"], record["warnings"])


def test_the_command_prints_a_warning(environment: dict[str, str], s3_server: S3Server) -> None:
    """On standard error, behind the checks."""
    profile = s3_profile(s3_server) | {"legacy-md5-behavior": True}
    made = icecore(
        "warehouse", "create", "lake", "--profile", json.dumps(profile), "--credential", json.dumps(S3_CREDENTIAL), **environment
    )
    assert 0 == made.returncode, made.stderr
    assert "warning: storage-profile: legacy-md5-behavior has no effect" in made.stderr.splitlines()[-1]
    assert ["warehouse-id"] == list(json.loads(made.stdout))


async def test_no_key_is_in_the_log(
    environment: dict[str, str], database: str, aws_server: AwsServer, aws_relay: AwsRelay, tmp_path: Path
) -> None:
    """Nor the external id, at the level that says most."""
    profile = role_profile(aws_server, aws_relay.endpoint)
    settings = environment | {
        "ICECORE_ENABLE_AWS_SYSTEM_CREDENTIALS": "true", "ICECORE_LOG_LEVEL": "debug", "ICECORE_WAREHOUSE_ENDPOINTS": aws_relay.endpoint,
    }  # fmt: skip
    with serving(database, tmp_path / "log", **settings) as (url, _):

        def create() -> list[int]:
            client = Management(url)
            responses = [
                client.create("lake", profile, WITH_ID),
                client.create("other", profile | {"key-prefix": "other"}, SYSTEM | {"external-id": "another's"}),
            ]
            client.close()
            return [response.status for response in responses]

        assert [201, 400] == await asyncio.to_thread(create)
    log = (tmp_path / "log").read_text()
    assert "system_identity_failed" in log
    assert not any(text in log for text in (aws_server.key_id, aws_server.secret_key, EXTERNAL_ID, "ASIA"))

"""Typical mistakes of new users, operators and clients: a table of commands and one of requests, with the expected responses.

Every message is short, without a trace or secret, and has an exit code or status.
"""

import asyncio
import base64
import json
import socket
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import Any

import psycopg
import pytest
import structlog
from pydantic import SecretStr

from icecore.exit_codes import ExitCode
from icecore.secret_keys import check_secret_keys, secret_store
from icecore.settings import Settings
from tests.fixtures.catalog import SECRET_KEY
from tests.fixtures.operator_commands import icecore_with
from tests.fixtures.rest_client import SCHEMA
from tests.fixtures.shared_server import SharedCatalog
from tests.servers.icecore import clean_environment
from tests.servers.paths import ROOT

LINES_MAX = 3
SECRET = "hunter2"
LOCAL = json.dumps({"type": "local", "directory": "$folder/lake"})
S3 = json.dumps({"type": "s3", "bucket": "lake", "region": "eu-central-1", "sts-enabled": False, "flavor": "aws"})


@dataclass(frozen=True)
class Mistake:
    """A wrong command. $database, $folder, $file, $taken and $closed are replaced in its texts.

    said -- parts of the message. embedded -- without an external database.
    """

    arguments: Sequence[str]
    said: Sequence[str]
    code: ExitCode = ExitCode.USAGE
    environment: Mapping[str, str] = field(default_factory=dict)
    embedded: bool = False


def _sink(**fields: str) -> dict[str, str]:
    return {f"ICECORE_SINKS__A__{name.upper()}": value for name, value in fields.items()}


def _url(url: str) -> dict[str, str]:
    return {"ICECORE_DATABASE_URL": url}


MISTAKES = {
    # The command line
    "a misspelt command": Mistake(["sevre"], ['Unknown command "sevre"', 'Did you mean "serve"', "doctor, worker.", "icecore --help"]),
    "a command of before": Mistake(["publish", "--sink", "a", "--from", "1"], ['Unknown command "publish"']),
    "a misspelt command of sinks": Mistake(["sinks", "replya", "a"], ["Unexpected argument: replya", "icecore sinks --help"]),
    "a misspelt option": Mistake(["serve", "--prot", "1"], ["Unknown option: --prot", "Did you mean --port"]),
    "an option of another command": Mistake(["verify", "--follow"], ["Unknown option: --follow", "icecore verify --help"]),
    "an argument too many": Mistake(["verify", "now"], ["Unexpected argument: now", "icecore verify --help"]),
    "an option without its value": Mistake(["serve", "--port"], ["icecore: --port needs a value."]),
    "two opposite options": Mistake(
        ["table", "drop", "a:b.c", "--purge", "--no-purge"], ["--no-purge repeats or contradicts an option before it"]
    ),
    "an option twice": Mistake(["verify", "--data", "a", "--data", "b"], ["--data repeats or contradicts"]),
    "a port that is no number": Mistake(["serve", "--port", "http"], ["--port", '"http"']),
    "a port that is too large": Mistake(["serve", "--port", "65536"], ["--port: must be at most 65535"]),
    "no worker at all": Mistake(["serve", "--workers", "0"], ["--workers: must be at least 1"]),
    # Settings
    "a misspelt setting": Mistake(
        ["verify"], ["Unknown setting ICECORE_PROT; did you mean ICECORE_PORT"], environment={"ICECORE_PROT": "1"}
    ),
    "a setting out of bounds": Mistake(["verify"], ["ICECORE_WORKERS: must be at least 1"], environment={"ICECORE_WORKERS": "0"}),
    "a setting that is none of the words": Mistake(["verify"], ["ICECORE_LOG_LEVEL", "'info'"], environment={"ICECORE_LOG_LEVEL": "loud"}),
    "no such settings file": Mistake(["verify", "--config", "$folder/none.toml"], ["none.toml cannot be read: No such file or directory"]),
    "a folder as settings file": Mistake(["verify", "--config", "$folder"], ["cannot be read", "Is a directory"]),
    "a settings file that is no TOML": Mistake(["verify", "--config", "$folder/broken.toml"], ["broken.toml is not TOML", "line 1"]),
    "a misspelt name in the file": Mistake(
        ["verify", "--config", "$folder/misspelt.toml"], ["Unknown setting prot in", "did you mean port"]
    ),
    "a sink without its table": Mistake(["sinks", "--config", "$folder/flat.toml"], ["sinks in", "write [sinks.NAME]"]),
    "a sink of no type": Mistake(
        ["sinks"], ["ICECORE_SINKS__A__TYPE: must be one of nats, kafka, webhook, stdout"], environment=_sink(url="x")
    ),
    "a sink of an unknown type": Mistake(
        ["sinks"], ["ICECORE_SINKS__A__TYPE: must be one of nats, kafka, webhook, stdout"], environment=_sink(type="pulsar")
    ),
    "a sink without its address": Mistake(["sinks"], ["ICECORE_SINKS__A__URL: is required"], environment=_sink(type="nats")),
    "a misspelt field of a sink": Mistake(
        ["sinks"], ["Unknown setting ICECORE_SINKS__A__ULR; did you mean ICECORE_SINKS__A__URL?"], environment=_sink(ulr="x")
    ),
    "a sink's address of another kind": Mistake(["sinks"], ["ICECORE_SINKS__A__URL"], environment=_sink(type="nats", url="http://x:1")),
    "two places for one secret key": Mistake(["verify"], ["set one of them"], environment={"ICECORE_SECRET_KEY_FILE": "$folder/key"}),
    "a secret key that is too short": Mistake(
        ["warehouse", "list"], ["must be 32 bytes, not 16"], environment={"ICECORE_SECRET_KEY": "A" * 22 + "=="}
    ),
    "a secret key that is no base64": Mistake(
        ["warehouse", "list"],
        ["icecore: ICECORE_SECRET_KEY: the secret key is not base64", "openssl rand -base64 32"],
        environment={"ICECORE_SECRET_KEY": SECRET},
    ),
    "no such file of the secret key": Mistake(
        ["warehouse", "list"],
        ["icecore: ICECORE_SECRET_KEY_FILE: the file cannot be read: No such file or directory"],
        environment={"ICECORE_SECRET_KEY": "", "ICECORE_SECRET_KEY_FILE": "$folder/none"},
    ),
    "a file without a secret key": Mistake(
        ["warehouse", "list"],
        ["icecore: ICECORE_SECRET_KEY_FILE: the secret key is not base64", "openssl rand -base64 32"],
        environment={"ICECORE_SECRET_KEY": "", "ICECORE_SECRET_KEY_FILE": "$folder/broken.toml"},
    ),
    "no secret key": Mistake(
        ["serve", "--port", "0"], ["openssl rand -base64 32", "ICECORE_SECRET_KEY_FILE"], environment={"ICECORE_SECRET_KEY": ""}
    ),
    # The database
    "a password with an @ in the URL": Mistake(
        ["verify"],
        ["ICECORE_DATABASE_URL", "percent-encode @ / : ? # in a password"],
        environment=_url(f"postgresql://u:{SECRET}@x@h/d"),
    ),
    "a password with a / in the URL": Mistake(["verify"], ["percent-encode @"], environment=_url(f"postgresql://u:{SECRET}/x@h/d")),
    "another database system": Mistake(["verify"], ["begins with mysql://"], environment=_url(f"mysql://u:{SECRET}@h/d")),
    "a database URL without its scheme": Mistake(
        ["verify"], ["postgresql://USER:PASSWORD@HOST:PORT/DATABASE"], environment=_url("localhost/icecore")
    ),
    "a database that does not respond": Mistake(
        ["verify"], ["cannot be reached", "127.0.0.1:$closed"], ExitCode.DATABASE, _url(f"postgresql://u:{SECRET}@127.0.0.1:$closed/d")
    ),
    "a database of no such name": Mistake(
        ["verify"],
        ["database does not exist at", "create it with CREATE DATABASE, or correct its name in ICECORE_DATABASE_URL"],
        ExitCode.DATABASE,
        _url("$database_nowhere"),
    ),
    "an owner of no such name": Mistake(
        ["migrate"],
        ["The database of ICECORE_DATABASE_OWNER_URL cannot be reached: ", "correct the user"],
        ExitCode.DATABASE,
        {"ICECORE_DATABASE_OWNER_URL": "$database_nobody"},
    ),
    "a pooler that does not respond": Mistake(
        ["migrate"],
        ["The database of ICECORE_DATABASE_POOLER_URL cannot be reached: connection refused at 127.0.0.1:$closed"],
        ExitCode.DATABASE,
        {"ICECORE_DATABASE_POOLER_URL": f"postgresql://u:{SECRET}@127.0.0.1:$closed/d"},
    ),
    "a database without the schema": Mistake(["verify"], ["run `icecore migrate` first"], ExitCode.DATABASE, _url("$database_empty")),
    "a data folder and a database": Mistake(["serve", "--data", "$folder/x"], ["--data", "ICECORE_DATABASE_URL", "use one of them"]),
    # Folders and ports
    "a file as data folder": Mistake(["serve", "--data", "$file"], ["cannot be created: a file has that name"], embedded=True),
    "a file as data folder that is asked": Mistake(["verify", "--data", "$file"], ["is a file, not a data folder"], embedded=True),
    "a data folder of nobody": Mistake(
        ["verify", "--data", "$folder/no catalog"], ["contains no catalog", "`icecore serve --data '$folder/no catalog'`"], embedded=True
    ),
    "a migration of a database that nobody named": Mistake(
        ["migrate", "--data", "$folder/none"], ["contains no catalog: set ICECORE_DATABASE_URL"], embedded=True
    ),
    "a data folder that cannot be written": Mistake(
        ["serve", "--data", "/proc/self"], ["The data folder /proc/self cannot be written: "], embedded=True
    ),
    "a taken port": Mistake(
        ["serve", "--port", "$taken"], ["Port $taken on 127.0.0.1 is in use", "with --port (ICECORE_PORT)"], ExitCode.BUSY
    ),
    "one port for two": Mistake(
        ["serve", "--port", "$closed"],
        ["ICECORE_METRICS_PORT is the port of the catalog, --port (ICECORE_PORT)"],
        environment={"ICECORE_METRICS_PORT": "$closed"},
    ),
    "a taken port of metrics": Mistake(
        ["serve", "--port", "0"],
        ["Port $taken on 127.0.0.1 is in use", "with ICECORE_METRICS_PORT"],
        ExitCode.BUSY,
        {"ICECORE_METRICS_PORT": "$taken"},
    ),
    "a host of no address": Mistake(["serve", "--host", "host.invalid", "--insecure", "--allowed-hosts", "x"], ["host.invalid"]),
    "an address of the network": Mistake(["serve", "--host", "0.0.0.0"], ["no authentication", "--insecure (ICECORE_INSECURE=true)"]),
    "an address of the network without a name": Mistake(
        ["serve", "--host", "0.0.0.0", "--insecure"], ["--allowed-hosts (ICECORE_ALLOWED_HOSTS)"]
    ),
    # Warehouses
    "a warehouse without a name": Mistake(["warehouse", "create"], ["icecore: NAME is missing.", "icecore warehouse create --help"]),
    "a warehouse of an empty name": Mistake(["warehouse", "create", "", "--profile", LOCAL], ["Invalid warehouse name: must not be empty"]),
    "a profile without its value": Mistake(["warehouse", "create", "w", "--profile"], ["icecore: --profile needs a value."]),
    "a whole request as the profile": Mistake(
        ["warehouse", "create", "w", "--profile", f'{{"warehouse-name": "w", "storage-profile": {LOCAL}}}'],
        ["--profile must be the storage profile alone"],
    ),
    "a warehouse without a profile": Mistake(["warehouse", "create", "w"], ["icecore: --profile is missing."]),
    "a profile that is no JSON": Mistake(["warehouse", "create", "w", "--profile", "{"], ["--profile is not JSON"]),
    "a profile that is a list": Mistake(["warehouse", "create", "w", "--profile", "[]"], ["storage-profile: must be an object"]),
    "no such file of a profile": Mistake(
        ["warehouse", "create", "w", "--profile", "@$folder/none"], ["--profile: $folder/none cannot be read: No such file or directory"]
    ),
    "a profile of an unknown type": Mistake(
        ["warehouse", "create", "w", "--profile", '{"type": "minio"}'], ["type must be one of local, s3, gcs, adls"]
    ),
    "a misspelt field of a profile": Mistake(
        ["warehouse", "create", "w", "--profile", S3.replace("bucket", "buckt")], ["'buckt': no such field; did you mean 'bucket'?"]
    ),
    "a misspelt field of a credential": Mistake(
        [
            "warehouse",
            "create",
            "w",
            "--profile",
            S3,
            "--credential",
            json.dumps({"type": "s3", "credential-type": "access-key", "aws-secret-key": SECRET}),
        ],
        ["'aws-secret-key': no such field; did you mean 'aws-secret-access-key'?"],
    ),
    "a credential as the name of a file": Mistake(
        ["warehouse", "create", "w", "--profile", S3, "--credential", f"@{SECRET}"], ["--credential cannot be read"]
    ),
    "a relative directory": Mistake(["warehouse", "create", "w", "--profile", LOCAL.replace("$folder/", "")], ["'directory'", "absolute"]),
    "a soft deletion without its unit": Mistake(
        ["warehouse", "create", "w", "--profile", LOCAL, "--soft", "7"], ["--soft must be a whole number with d, h, m or s"]
    ),
    "a format version that is none": Mistake(
        ["warehouse", "create", "w", "--profile", LOCAL, "--allow", "4"],
        ["Invalid allowed-format-versions: must be one or more of 1, 2, 3"],
    ),
    "warehouses of no such status": Mistake(["warehouse", "list", "--status", "deleted"], ["--status", '"deleted"']),
    "statistics of no warehouse": Mistake(["warehouse", "statistics", "nowhere"], ["Warehouse does not exist: nowhere"], ExitCode.NO),
    "no hour of statistics": Mistake(["warehouse", "statistics", "demo", "--limit", "0"], ["--limit must be a positive whole number"]),
    "a name that is taken": Mistake(
        ["warehouse", "create", "demo", "--profile", LOCAL], ["icecore: Warehouse already exists: demo"], ExitCode.NO
    ),
    # Namespaces, tables and views
    "a namespace of no warehouse": Mistake(["namespace", "list"], ["icecore: WAREHOUSE is missing.", "icecore namespace list --help"]),
    "a misspelt warehouse": Mistake(["namespace", "list", "dmeo"], ["icecore: Warehouse does not exist: dmeo"], ExitCode.NO),
    "a warehouse of no such project": Mistake(
        ["namespace", "list", "demo", "--project", "nobody"], ["icecore: Project does not exist: nobody"], ExitCode.NO
    ),
    "a namespace below none": Mistake(
        ["namespace", "create", "demo", "nowhere.a"], ["icecore: Namespace does not exist: nowhere"], ExitCode.NO
    ),
    "a namespace of an empty level": Mistake(["namespace", "create", "demo", "a..b"], ["Invalid namespace level: must not be empty"]),
    "a namespace with a slash at its end": Mistake(["namespace", "create", "demo", "a/"], ["Invalid namespace level", "empty segment"]),
    "a namespace that engines use": Mistake(["namespace", "create", "demo", "system"], ["icecore: ", "system", "reserved"]),
    "a property without a value": Mistake(["namespace", "create", "demo", "a", "--property", "owner"], ["--property must be KEY=VALUE"]),
    "a property that is set twice": Mistake(
        ["namespace", "properties", "demo", "a", "--set", "k=1", "--set", "k=2"], ["--set names 'k' twice"]
    ),
    "tables without their namespace": Mistake(["table", "list", "demo"], ["icecore: NAMESPACE is missing.", "icecore table list --help"]),
    "tables of no namespace": Mistake(["table", "list", "demo", "nowhere"], ["icecore: Namespace does not exist: nowhere"], ExitCode.NO),
    "a table without a namespace": Mistake(["table", "get", "demo", "orders"], ["icecore: a table is named NAMESPACE.TABLE: orders"]),
    "a table with its warehouse before it": Mistake(
        ["table", "drop", "demo:a.orders"], ["icecore: TABLE is missing.", "icecore table drop --help"]
    ),
    "a table to drop that is not there": Mistake(
        ["table", "drop", "demo", "nowhere.t"], ["icecore: Table does not exist: nowhere.t"], ExitCode.NO
    ),
    "a rename without the new namespace": Mistake(
        ["table", "rename", "demo", "a.t", "u"], ["icecore: a table is named NAMESPACE.TABLE: u"]
    ),
    "a view without a namespace": Mistake(["view", "drop", "demo", "v"], ["icecore: a view is named NAMESPACE.VIEW: v"]),
    "a metadata file as a path": Mistake(["table", "register", "demo", "a.t", "/lake/v1.metadata.json"], ["icecore: Invalid"]),
    "a view's drop with a purge": Mistake(["view", "drop", "demo", "a.v", "--purge"], ["Unknown option: --purge"]),
    "a past state that is dropped": Mistake(["table", "drop", "demo@1", "a.t"], ["a past state cannot be changed"]),
    # Tasks
    "no task": Mistake(["task", "list", "demo", "--limit", "0"], ["--limit must be a positive whole number"]),
    "tasks of no such status": Mistake(["task", "list", "demo", "--status", "DONE"], ["--status", '"DONE"']),
    "a task by its number": Mistake(["task", "get", "demo", "1"], ["TASK_ID", '"1"']),
    "a task to run at no time": Mistake(
        ["task", "run-at", "demo", "tomorrow", "00000000-0000-7000-8000-000000000000"], ["AT", '"tomorrow"']
    ),
    "a queue of no such name": Mistake(["task", "queue-config", "demo", "purge"], ["QUEUE", '"purge"']),
    "a heartbeat without its unit": Mistake(
        ["task", "queue-config", "demo", "tabular_purge", "--heartbeat", "600"], ["--heartbeat must be a whole number with d, h, m or s"]
    ),
    # Events and sinks
    "a position before the first": Mistake(["log", "--from", "0"], ["--from must be a position of at least 1"]),
    "a position after the last": Mistake(["log", "--from", "999999"], ["--from 999999 is beyond the end of the log ("]),
    "a time without a zone": Mistake(["log", "--since", "2026-01-01"], ["--since must be an RFC 3339 time with a time zone"]),
    "a time to come": Mistake(["log", "--since", "2999-01-01T00:00:00Z"], ["--since 2999-01-01T00:00:00Z is in the future"]),
    "the first time of all": Mistake(["log", "--since", "0001-01-01T00:00:00Z", "--table", "t"], ["--table must be [WAREHOUSE:]"]),
    "no number of seconds": Mistake(["wait-for-db", "--timeout-seconds", "nan"], ["--timeout-seconds must be a number of seconds"]),
    "seconds below 0": Mistake(["wait-for-db", "--timeout-seconds", "-1"], ["--timeout-seconds must be a number of seconds"]),
    "an end of what has none": Mistake(["log", "--follow", "--until", "2026-01-01T00:00:00Z"], ["--until and --follow cannot be combined"]),
    "two forms of events": Mistake(["log", "--json", "--cloudevents"], ["--json and --cloudevents exclude each other"]),
    "a table without its namespace": Mistake(["log", "--table", "t"], ["--table must be [WAREHOUSE:]NAMESPACE.TABLE or the id"]),
    "a table of no warehouse": Mistake(["log", "--table", "nowhere:a.t"], ["Warehouse does not exist: nowhere"], ExitCode.NO),
    "a table that is not there": Mistake(["log", "--table", "demo:a.nowhere"], ["does not exist: a"], ExitCode.NO),
    "an end before the beginning": Mistake(
        ["log", "--since", "2026-01-02T00:00:00Z", "--until", "2026-01-01T00:00:00Z"], ["--until is before --since"]
    ),
    "no event": Mistake(["log", "--limit", "0"], ["--limit", "at least 1"]),
    "a replay to no such sink": Mistake(
        ["sinks", "replay", "b", "--from", "1"], ["no sink b", "configured sinks: a"], environment=_sink(type="stdout")
    ),
    "a replay from nowhere": Mistake(["sinks", "replay", "a"], ["--from is required, or --cancel"], environment=_sink(type="stdout")),
    "a replay beyond the end": Mistake(
        ["sinks", "replay", "a", "--from", "999999"],
        ["--from 999999 is not in the log, which has positions 1 to "],
        environment=_sink(type="stdout"),
    ),
    "a replay with an unknown filter": Mistake(
        ["sinks", "replay", "a", "--from", "1", "--filter", "table=x"], ["--filter table=x is not type=…"], environment=_sink(type="stdout")
    ),
    "a skip without a reason": Mistake(["sinks", "skip", "a", "1"], ["icecore: --reason is missing."], environment=_sink(type="stdout")),
    "a skip of a position that is none": Mistake(
        ["sinks", "skip", "a", "first", "--reason", "x"], ["POSITION", '"first"'], environment=_sink(type="stdout")
    ),
    # The health of a server
    "no server": Mistake(
        ["health", "--url", "http://127.0.0.1:$closed"], ["does not respond", "is `icecore serve` running there?"], ExitCode.NO
    ),
    "a sink's URL that is none": Mistake(
        ["sinks"],
        ["ICECORE_SINKS__A__URL: must begin with http:// or https://"],
        environment=_sink(type="webhook", url="ftp://x", secret="s"),
    ),
    "requests of a sink without a signature": Mistake(
        ["sinks"], ["ICECORE_SINKS__A: secret or secret_file is required"], environment=_sink(type="webhook", url="http://x")
    ),
    "no server behind a user's address": Mistake(
        ["health", "--url", f"http://user:{SECRET}@127.0.0.1:$closed"], ["icecore: http://127.0.0.1:$closed does not respond"], ExitCode.NO
    ),
    "a server of another data folder": Mistake(
        ["health", "--data", "$folder/x"], ["No server runs with the data folder $folder/x", "--url"], ExitCode.NO, embedded=True
    ),
    "an address without http": Mistake(["health", "--url", "localhost:8181"], ["localhost:8181 is not an http or https URL"]),
    "the address of a page": Mistake(["health", "--url", "$server/catalog"], ["Path does not exist"], ExitCode.NO),
}


@dataclass(frozen=True)
class Answered:
    """The output of a command, and the values that were inserted."""

    code: int
    output: str
    errors: str
    values: Mapping[str, str]


@pytest.fixture(scope="module")
def answered(shared_catalog: SharedCatalog, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Answered]]:
    """Every mistake, executed in one process, against the session's server and its database."""
    folder = tmp_path_factory.mktemp("mistakes")
    dsn = shared_catalog.server.dsn
    (folder / "file").write_text("")
    (folder / "key").write_text(SECRET_KEY)
    (folder / "broken.toml").write_text("port = \n")
    (folder / "misspelt.toml").write_text("prot = 1\n")
    (folder / "flat.toml").write_text('[sinks]\ntype = "stdout"\n')
    with closing(socket.create_server(("127.0.0.1", 0))) as unused:
        closed = unused.getsockname()[1]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        values = {
            "database": dsn,
            "database_nowhere": f"{dsn} dbname=nowhere",
            "database_nobody": f"{dsn} user=nobody",
            "database_empty": f"{dsn} dbname=template1",
            "folder": str(folder),
            "file": str(folder / "file"),
            "taken": str(taken.getsockname()[1]),
            "closed": str(closed),
            "server": shared_catalog.server.url,
        }
        own = {"ICECORE_DATABASE_URL": "$database", "ICECORE_SECRET_KEY": SECRET_KEY}
        given = [
            {
                "arguments": [_filled(each, values) for each in mistake.arguments],
                "environment": {
                    name: _filled(text, values) for name, text in ({} if mistake.embedded else own | dict(mistake.environment)).items()
                },
            }
            for mistake in MISTAKES.values()
        ]
        done = subprocess.run(
            [sys.executable, "-P", "-m", "tests.fixtures.commands_in_one_process"],
            cwd=ROOT, env=clean_environment() | {"PYTHONPATH": str(ROOT), "COLUMNS": "80"},
            input=json.dumps(given), capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert 0 == done.returncode, done.stderr
        yield {name: Answered(*each, values) for name, each in zip(MISTAKES, json.loads(done.stdout), strict=True)}  # type: ignore[call-arg]


def _filled(text: str, values: Mapping[str, str]) -> str:
    return Template(text).safe_substitute(values)


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_of_a_command_is_answered_in_words(name: str, answered: Mapping[str, Answered]) -> None:
    """With its exit code, in few lines, which a narrow terminal does not wrap."""
    mistake, response = MISTAKES[name], answered[name]
    said = response.output + response.errors
    assert mistake.code == response.code, said
    for part in mistake.said:
        assert _filled(part, response.values) in said
    assert len(said.splitlines()) <= LINES_MAX, said
    assert "Traceback" not in said
    for secret in (SECRET, SECRET_KEY):
        assert secret not in said
    if mistake.code == ExitCode.USAGE:
        # As root, a server logs a warning first.
        assert ("", True) == (response.output, response.errors.splitlines()[-1].startswith("icecore: "))


def test_the_tables_are_long_enough() -> None:
    """At least fifty commands."""
    assert len(MISTAKES) >= 50
    assert len(REQUESTS) >= 20


JSON = {"Content-Type": "application/json"}
FORM = "application/x-www-form-urlencoded"


@dataclass(frozen=True)
class Request:
    """A wrong request. $prefix in its path is replaced by a warehouse with the namespace `a` and the table `a.t`."""

    method: str
    path: str
    status: int
    said: str
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=lambda: JSON)


BAD, NOT_FOUND, CONFLICT = 400, 404, 409
REQUESTS = {
    "the server's own address": Request("GET", "/", NOT_FOUND, "Path does not exist: /"),
    "no base path": Request("GET", "/iceberg/v1/config", NOT_FOUND, "Path does not exist"),
    "a version of the API that is none": Request("GET", "/catalog/v2/config", NOT_FOUND, "Path does not exist"),
    "a misspelt address": Request("GET", "$prefix/namespace", NOT_FOUND, "Path does not exist"),
    "a wrong method": Request("PUT", "$prefix/namespaces", 405, "Method not allowed: PUT"),
    "no such warehouse": Request("GET", "/catalog/v1/config?warehouse=nowhere", NOT_FOUND, "Warehouse does not exist: nowhere"),
    "no such prefix": Request("GET", "/catalog/v1/nowhere/namespaces", NOT_FOUND, "Warehouse does not exist: nowhere"),
    "a time without its zone": Request("GET", "$prefix@2026-01-01/namespaces", BAD, "RFC 3339 time with a time zone"),
    "a position that is not there": Request("GET", "$prefix@999999999/namespaces", BAD, "beyond the end of the log"),
    "no such namespace": Request("GET", "$prefix/namespaces/nowhere", NOT_FOUND, "Namespace does not exist: nowhere"),
    "a namespace with a dot for its levels": Request("GET", "$prefix/namespaces/a.b", NOT_FOUND, "Namespace does not exist: a.b"),
    "no such table": Request("GET", "$prefix/namespaces/a/tables/nowhere", NOT_FOUND, "Table does not exist: a.nowhere"),
    "a table's name with a slash": Request("GET", "$prefix/namespaces/a/tables/t/x", NOT_FOUND, "Path does not exist"),
    "a table as a view": Request("GET", "$prefix/namespaces/a/views/t", NOT_FOUND, "View does not exist: a.t"),
    "a body that is no JSON": Request("POST", "$prefix/namespaces", BAD, "Invalid body: not JSON", b"{"),
    "no body": Request("POST", "$prefix/namespaces", BAD, "Invalid body"),
    "another content type": Request("POST", "$prefix/namespaces", BAD, "must be application/json", b"{}", {"Content-Type": "text/plain"}),
    "a field that lacks": Request("POST", "$prefix/namespaces", BAD, "Missing field 'namespace'", {}),
    "a text for a list": Request("POST", "$prefix/namespaces", BAD, "Invalid field 'namespace': must be a list", {"namespace": "a"}),
    "a namespace without a name": Request("POST", "$prefix/namespaces", BAD, "namespace", {"namespace": []}),
    "a namespace that is there": Request("POST", "$prefix/namespaces", CONFLICT, "Namespace already exists: a", {"namespace": ["a"]}),
    "a namespace with tables, dropped": Request("DELETE", "$prefix/namespaces/a", CONFLICT, "not empty"),
    "a table without a schema": Request("POST", "$prefix/namespaces/a/tables", BAD, "Missing field 'schema'", {"name": "u"}),
    "a table that is there": Request(
        "POST", "$prefix/namespaces/a/tables", CONFLICT, "already exists: a.t", {"name": "t", "schema": SCHEMA}
    ),
    "a type that is none": Request(
        "POST", "$prefix/namespaces/a/tables", BAD, "varchar",
        {"name": "u", "schema": {"type": "struct", "fields": [{"id": 1, "name": "x", "type": "varchar", "required": False}]}},
    ),
    "a location elsewhere": Request(
        "POST", "$prefix/namespaces/a/tables", BAD, "location", {"name": "u", "schema": SCHEMA, "location": "s3://elsewhere/u"}
    ),
    "a page of no size": Request("GET", "$prefix/namespaces?pageSize=0", BAD, "'pageSize': must be a positive whole number"),
    "a page token of another catalog": Request("GET", "$prefix/namespaces?pageToken=x", BAD, "not a token of this catalog"),
    "an unknown parameter": Request("GET", "/history/v1/events?since=1", BAD, "Unknown parameter 'since': the parameters are after"),
    "a key that is no UUID": Request(
        "POST", "$prefix/namespaces", BAD, "must be one UUID", {"namespace": ["k"]}, {**JSON, "Idempotency-Key": "1"}
    ),
    "a name of another server": Request("GET", "/catalog/v1/config", 403, "ICECORE_ALLOWED_HOSTS", headers={"Host": "elsewhere"}),
    "a form for no address": Request("POST", "/nowhere", NOT_FOUND, "Path does not exist", b"a=b", {"Content-Type": FORM}),
    "a form for a wrong method": Request("PUT", "$prefix/namespaces", 405, "Method not allowed: PUT", b"a=b", {"Content-Type": FORM}),
}  # fmt: skip


@pytest.fixture(scope="module")
def prefix(shared_catalog: SharedCatalog) -> str:
    """The path of a warehouse with the namespace `a` and the table `a.t`."""
    made = shared_catalog.new_warehouse()
    client = shared_catalog.client(made)
    assert 200 == client.create_namespace("a").status
    assert 200 == client.call("POST", "/namespaces/a/tables", {"name": "t", "schema": SCHEMA}).status
    client.close()
    return f"/catalog/v1/{made.name}"


@pytest.mark.parametrize("name", REQUESTS)
def test_a_mistake_of_a_client_is_answered_in_words(name: str, shared_catalog: SharedCatalog, prefix: str) -> None:
    """As an ErrorModel whose code is the status."""
    made = REQUESTS[name]
    body = made.body if made.body is None or isinstance(made.body, bytes) else json.dumps(made.body).encode()
    request = urllib.request.Request(
        shared_catalog.server.url + _filled(made.path, {"prefix": prefix}), body, dict(made.headers), method=made.method
    )
    with pytest.raises(urllib.error.HTTPError) as refused, urllib.request.urlopen(request, timeout=30):
        pass
    with closing(refused.value) as response:
        error = json.load(response)["error"]
    assert (made.status, made.status) == (refused.value.code, error["code"]), error
    assert made.said in error["message"]
    assert error["type"]
    assert len(error["message"].splitlines()) <= LINES_MAX


@pytest.mark.parametrize("base", ["/v1", "/catalog/v1", "/catalog/w/lake/v1", "/catalog/w/lake@1/v1"])
def test_a_client_with_a_credential_is_told_to_configure_none(base: str, shared_catalog: SharedCatalog) -> None:
    """As the specification's OAuthError, because clients show no other here. The credential is not repeated."""
    form = urllib.parse.urlencode({"grant_type": "client_credentials", "client_secret": SECRET}).encode()
    request = urllib.request.Request(f"{shared_catalog.server.url}{base}/oauth/tokens", form, {"Content-Type": FORM}, method="POST")
    with pytest.raises(urllib.error.HTTPError) as refused, urllib.request.urlopen(request, timeout=30):
        pass
    with closing(refused.value) as response:
        said = {"error": "unsupported_grant_type", "error_description": "This catalog has no authentication: configure no credential"}
        assert (400, said) == (response.code, json.load(response))


# Starting a server


def test_a_key_that_decrypts_no_credential_is_found_at_the_start(database: str, tmp_path: Path) -> None:
    """Not at the first commit to the warehouse. `serve` and `worker` have the same error, and the previous key may be configured beside the
    new one.
    """
    credential = {"type": "s3", "credential-type": "access-key", "aws-access-key-id": "AKIA0", "aws-secret-access-key": SECRET}
    another = base64.b64encode(b"o" * 32).decode()
    own = {"ICECORE_DATABASE_URL": database, "ICECORE_SECRET_KEY": SECRET_KEY}
    unchecked = own | {"ICECORE_SKIP_STORAGE_VALIDATION": "true"}
    made = icecore_with(unchecked, "warehouse", "create", "lake", "--profile", S3, "--credential", json.dumps(credential))
    assert 0 == made.returncode, made.stderr
    for command in (["serve", "--port", "0"], ["worker"]):
        refused = _icecore(*command, **own | {"ICECORE_SECRET_KEY": another})
        assert ExitCode.USAGE == refused.returncode, refused.stderr
        assert "The secret key decrypts no stored credential" in refused.stderr
        assert "ICECORE_SECRET_KEY_FILES_PREVIOUS" in refused.stderr
        assert another not in refused.stderr


def test_a_command_stores_no_credential_with_a_key_that_decrypts_none(database: str, tmp_path: Path) -> None:
    """As no server starts with it. Credentials are removed and used for checks without a key, and replaced if their key is lost."""
    credential = {"type": "s3", "credential-type": "access-key", "aws-access-key-id": "AKIA0", "aws-secret-access-key": SECRET}
    given = ("--credential", json.dumps(credential))
    another = base64.b64encode(b"o" * 32).decode()
    right = {"ICECORE_DATABASE_URL": database, "ICECORE_SECRET_KEY": SECRET_KEY, "ICECORE_SKIP_STORAGE_VALIDATION": "true"}
    wrong = right | {"ICECORE_SECRET_KEY": another}
    for name in ("lake", "sea"):
        profile = json.dumps({**json.loads(S3), "bucket": name})
        made = _icecore("warehouse", "create", name, "--profile", profile, *given, **right)
        assert 0 == made.returncode, made.stderr
    elsewhere = json.dumps({**json.loads(S3), "bucket": "pond"})
    for command in (("create", "pond", "--profile", elsewhere), ("credential", "lake"), ("storage", "lake", "--profile", S3)):
        refused = _icecore("warehouse", *command, *given, **wrong)
        assert ExitCode.USAGE == refused.returncode, refused.stderr
        assert "The secret key decrypts no stored credential" in refused.stderr
        assert "icecore warehouse credential --key-lost" in refused.stderr
    with psycopg.connect(database) as connection:
        assert [(2,)] == connection.execute("select count(*) from icecore.secrets group by key_id").fetchall()
    for accepted in (("create", "pond", "--profile", elsewhere), ("credential", "lake", *given, "--key-lost")):
        done = _icecore("warehouse", *accepted, **wrong)
        assert 0 == done.returncode, done.stderr


@pytest.mark.parametrize("missing", [True, False])
def test_a_key_that_decrypts_some_credentials_is_a_warning(database: str, tmp_path: Path, missing: bool) -> None:
    """With their number. With the previous key there is nothing to say."""
    credential = {"type": "s3", "credential-type": "access-key", "aws-access-key-id": "AKIA0", "aws-secret-access-key": SECRET}
    previous = base64.b64encode(b"o" * 32).decode()
    (tmp_path / "previous").write_text(previous)
    (tmp_path / "current").write_text(SECRET_KEY)
    for name, key in (("lake", SECRET_KEY), ("sea", previous)):
        files = {"ICECORE_SECRET_KEY_FILES_PREVIOUS": str(tmp_path / "current")}
        own = {"ICECORE_DATABASE_URL": database, "ICECORE_SECRET_KEY": key, "ICECORE_SKIP_STORAGE_VALIDATION": "true"} | files
        profile = json.dumps({**json.loads(S3), "bucket": name})
        made = icecore_with(own, "warehouse", "create", name, "--profile", profile, "--credential", json.dumps(credential))
        assert 0 == made.returncode, made.stderr
    paths = () if missing else (tmp_path / "previous",)
    with structlog.testing.capture_logs() as records:
        settings = Settings(database_url=SecretStr(database), secret_key=SecretStr(SECRET_KEY), secret_key_files_previous=paths)
        asyncio.run(check_secret_keys(settings, secret_store(settings)))
    assert [("secret_key_missing", 1)] * missing == [(record["event"], record["unreadable"]) for record in records]


def test_json_is_whole_in_a_narrow_terminal(database: str, tmp_path: Path) -> None:
    """A profile is longer than 80 columns."""
    own = {"ICECORE_DATABASE_URL": database, "ICECORE_SECRET_KEY": SECRET_KEY, "COLUMNS": "40", "TERM": "xterm", "FORCE_COLOR": "1"}
    profile = json.dumps({"type": "local", "directory": f"{tmp_path}/[red]{'x' * 99}"})
    made = icecore_with(own, "warehouse", "create", "lake", "--profile", profile)
    assert 0 == made.returncode, made.stderr
    (listed,) = json.loads(_icecore("warehouse", "list", "--json", **own).stdout)
    assert f"{tmp_path}/[red]{'x' * 99}" == listed["storage-profile"]["directory"]


def test_sinks_name_the_table_that_lacks(database: str) -> None:
    """In square brackets, which must not be read as markup."""
    done = icecore_with({"ICECORE_DATABASE_URL": database}, "sinks")
    assert (0, True) == (done.returncode, "add a table [sinks.NAME] to the settings" in done.stdout), done.stdout


def _icecore(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "icecore", *arguments]
    return subprocess.run(command, cwd=ROOT, env=clean_environment() | environment, capture_output=True, text=True, timeout=60, check=False)

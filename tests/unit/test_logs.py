"""Logs: one record per line, with context and without secrets."""

import base64
import json
import logging
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal
from urllib.parse import quote

import orjson
import pytest
import structlog
from pydantic import SecretStr

from icecore.logs import REDACTED, configure_logs, configure_logs_for, redact
from icecore.settings import Settings


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """The tests configure the process's logging; this restores pytest's."""
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    yield
    structlog.reset_defaults()
    logging.captureWarnings(False)
    root.handlers, root.level = handlers, level


@pytest.mark.parametrize(
    "name",
    [
        "password",
        "secret_key",
        "aws-secret-access-key",
        "s3.secret-access-key",
        "token",
        "Authorization",
        "credential",
        "sas_token",
        "cookie",
    ],
)
def test_what_is_named_like_a_secret_is_blanked(name: str) -> None:
    """At any depth."""
    assert {name: REDACTED} == redact(None, "info", {name: "hunter2"})
    assert {"config": {name: REDACTED}} == redact(None, "info", {"config": {name: "hunter2"}})
    assert {"configs": [{name: REDACTED}]} == redact(None, "info", {"configs": [{name: "hunter2"}]})


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("connecting to postgresql://icecore:hunter2@db:5432/x failed", "connecting to postgresql://***@db:5432/x failed"),
        ("host=db password=hunter2 dbname=x", "host=db password=*** dbname=x"),
        ("host=db password='hunter 2' dbname=x", "host=db password=*** dbname=x"),
        ("Authorization: Bearer hunter2hunter2", "Authorization: Bearer ***"),
        ("https://s3/x?X-Amz-Signature=hunter2&y=1", "https://s3/x?X-Amz-Signature=***&y=1"),
        ("https://blob/x?sv=1&sig=hunter2", "https://blob/x?sv=1&sig=***"),
        ("table town.people at s3://lake/a=b/c", "table town.people at s3://lake/a=b/c"),
    ],
)
def test_what_looks_like_a_secret_inside_a_text_is_blanked(text: str, shown: str) -> None:
    """Errors of libraries quote connection strings and URLs."""
    assert {"error": shown} == redact(None, "info", {"error": text})
    assert {"error": f"ValueError: {shown}"} == redact(None, "info", {"error": ValueError(text)})


def test_ids_and_numbers_stay() -> None:
    """They are needed to find records."""
    record = {"request_id": "r", "idempotency_key": "k", "secret_ref": "s", "status": 200, "ok": True, "nothing": None}
    assert record == redact(None, "info", dict(record))


def test_bytes_are_counted_and_long_texts_cut() -> None:
    """A request's body in a record is not written out."""
    assert {"state": "<3 bytes>"} == redact(None, "info", {"state": b"abc"})
    assert len(str(redact(None, "info", {"text": "x" * 100_000})["text"])) < 5_000


@pytest.mark.parametrize("form", ["json", "console"])
def test_both_forms_carry_context_and_blank_secrets_of_libraries_too(
    form: Literal["json", "console"], capsys: pytest.CaptureFixture[str]
) -> None:
    """One chain for our records and the standard library's; nothing goes to standard output."""
    configure_logs("info", form)
    with structlog.contextvars.bound_contextvars(request_id="r-1"):
        structlog.get_logger("icecore.x").info("done", password="hunter2")
        logging.getLogger("some.library").warning("dsn password=hunter2")
        structlog.get_logger("icecore.x").debug("unheard")
    said = capsys.readouterr()
    lines = said.err.splitlines()
    assert ("", 2) == (said.out, len(lines))
    assert all("r-1" in line and "hunter2" not in line for line in lines)
    if form == "json":
        assert [("done", "info"), ("dsn password=***", "warning")] == [(r["event"], r["level"]) for r in map(json.loads, lines)]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("a\udc85b", "a\\udc85b"),
        ({"a\ud800": ["\udfff"]}, {"a\\ud800": ["\\udfff"]}),
        (2**64, "0x10000000000000000"),
        ([10**5_000], [hex(10**5_000)]),
        ([True, None, 7, 0.5, float("nan"), "é"], [True, None, 7, 0.5, "nan", "é"]),
        ({("a", 1): 1}, {"('a', 1)": 1}),
    ],
)
def test_a_json_line_is_written_whatever_is_in_the_record(value: object, shown: object, capsys: pytest.CaptureFixture[str]) -> None:
    """A header may contain bytes that are no text. The line is valid for any reader of JSON."""
    configure_logs("info", "json")
    structlog.get_logger("icecore.x").info("done \udc85", value=value)
    [line] = capsys.readouterr().err.splitlines()
    record = orjson.loads(line)
    assert ("done \\udc85", shown) == (record["event"], record["value"])


def test_a_json_line_of_deep_values_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    """Deeper than orjson encodes."""
    deep: object = "x"
    for _ in range(300):
        deep = [deep]
    configure_logs("info", "json")
    structlog.get_logger("icecore.x").info("done", value=deep)
    [line] = capsys.readouterr().err.splitlines()
    assert "done" == orjson.loads(line)["event"]


@pytest.mark.parametrize("text", ["a\x1b[31mb", "a\x85b", "a\u202eb", "a\u2028b", "a \x1b[31mb \u202e", "a\nb"])
def test_the_console_shows_no_control_characters(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """They would change what the operator sees, or look like another record."""
    configure_logs("info", "console")
    try:
        raise RuntimeError(text)
    except RuntimeError as error:
        structlog.get_logger("icecore.x").error(f"broke {text}", client=text, exc_info=error)
    said = capsys.readouterr().err
    assert not {each for each in said if not each.isprintable()} - {"\n"}
    first, *_ = said.splitlines()
    assert 2 == first.count(text.encode("unicode_escape").decode())


@pytest.mark.parametrize("text", ["a\x1b[31mb", "a\x7fb", "a\x85b", "a\u202eb", "a\u2028b", "a\U000e0001b", "a\nb \u3000"])
def test_json_contains_no_control_characters(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Clients choose texts, and terminals show them. Readers of the records get the same text."""
    configure_logs("info", "json")
    structlog.get_logger("icecore.x").info("done", path=text, more=[text], texts={text: 1})
    line = capsys.readouterr().err.removesuffix("\n")
    assert line.isprintable()
    assert (text, [text], {text: 1}) == tuple(json.loads(line)[name] for name in ("path", "more", "texts"))


def test_clients_of_stores_and_pools_log_nothing_themselves(capsys: pytest.CaptureFixture[str]) -> None:
    """Their records contain credentials and addresses; our callers log what fails."""
    configure_logs("debug", "json")
    for library in ("botocore.credentials", "urllib3.connectionpool", "psycopg.pool"):
        logging.getLogger(library).error("secret of %s", library)
    for library in ("asyncio", "psycopg", "aiohttp.access", "eventsourcing"):
        logging.getLogger(library).info("secret of %s", library)
        logging.getLogger(library).warning("trouble of %s", library)
    events = [json.loads(line)["event"] for line in capsys.readouterr().err.splitlines()]
    assert [f"trouble of {library}" for library in ("asyncio", "psycopg", "aiohttp.access", "eventsourcing")] == events


def test_a_trace_is_logged_and_its_secrets_are_not(capsys: pytest.CaptureFixture[str]) -> None:
    """The last line of a trace is the error's text."""
    configure_logs("info", "json")
    try:
        raise RuntimeError("postgresql://icecore:hunter2@db/x")
    except RuntimeError as error:
        structlog.get_logger("icecore.x").error("broke", exc_info=error)
    record = json.loads(capsys.readouterr().err)
    assert "test_logs.py" in record["exception"]
    assert "RuntimeError: postgresql://***@db/x" in record["exception"]


CANARY = "cAnary/7+x y=z"
"""With characters that URLs, base64 and JSON encode."""


def canary_settings(tmp_path: Path) -> Settings:
    """Every kind of setting that may contain a secret, each with a different one."""
    (tmp_path / "secret").write_text(f"{CANARY}-file\n")
    sinks = {
        "hook": {"type": "webhook", "url": "https://u:canary-user@h/services/canary-path?sig=canary-query", "secret": f"{CANARY}-secret",
                 "headers": {"X-Any": f"{CANARY}-header"}},
        "nats": {"type": "nats", "url": "nats://canary-nats-token@h:4222", "password": f"{CANARY}-password"},
        "kafka": {"type": "kafka", "url": "h:9092", "config": {"sasl.password": f"{CANARY}-config"},
                  "password_file": str(tmp_path / "secret")},
    }  # fmt: skip
    hooks = {"p": {"type": "plugin", "plugin": "x", "options": {"api-token": f"{CANARY}-option", "depth": {"password": f"{CANARY}-deep"}}}}
    url = f"postgresql://icecore:{quote(CANARY, safe='')}-database@h/d"
    return Settings(database_url=SecretStr(url), secret_key=SecretStr(f"{CANARY}-key"), sinks=sinks, hooks=hooks)  # type: ignore[arg-type]


def plainly(secret: str) -> list[str]:
    return [secret, quote(secret, safe=""), base64.b64encode(secret.encode()).decode()]


def test_secrets_of_the_settings_are_blanked_wherever_they_turn_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In texts without any sign of a secret, in every encoding of a client, in traces and in libraries' logs."""
    ends = ("secret", "header", "password", "config", "option", "deep", "key", "file", "database")
    secrets = [f"{CANARY}-{end}" for end in ends] + ["canary-user", "/services/canary-path", "canary-query", "canary-nats-token"]
    configure_logs_for(canary_settings(tmp_path).model_copy(update={"log_format": "json"}))
    log = structlog.get_logger("icecore.x")
    for secret in secrets:
        forms = [repr(secret), quote(secret), json.dumps(secret), *plainly(secret)]
        for form in forms:
            log.warning(f"said {form}", error=f"before{form}after", parts=[form], named={"x": form, form: 1}, failure=ValueError(form))
            logging.getLogger("some.library").warning("%s", form)
            try:
                try:
                    raise KeyError(form)
                except KeyError as error:
                    raise RuntimeError("outer") from error
            except RuntimeError as error:
                log.error("broke", exc_info=error)
    basic = base64.b64encode(b"u:canary-user").decode()
    log.warning(f"sent {basic}")
    said = capsys.readouterr().err
    assert [] == [form for secret in secrets for form in plainly(secret) if form in said]
    assert basic not in said
    assert "said ***" in said


def test_a_short_secret_does_not_blank_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    """A password of three letters occurs in many words."""
    configure_logs_for(Settings(database_url=SecretStr("postgresql://icecore:abc@h/d"), log_format="json"))
    structlog.get_logger("icecore.x").info("abcdef")
    assert "abcdef" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    [
        "postgresql+psycopg://icecore:hunter2@db/x",
        "missing = after postgresql://icecore:hun/hunter2@db/x in connection info string",
        "postgresql://icecore:p@hunter2@db/x",
        "nats://hunter2@h:4222",
        "https://hunter2@h/x",
        "headers={'Authorization': 'Token hunter2'}",
        '{"authorization": "hunter2"}',
        "Authorization: AWS4-HMAC-SHA256 Credential=hunter2/20260101, Signature=hunter2",
        "X-Api-Key: hunter2",
        "Cookie: session=hunter2",
        "https://h/x?access_token=hunter2",
        "https://h/x?a=1&token=hunter2&b=2",
        "https://h/x?X-Amz-Security-Token=hunter2",
        "https://h/x?X-Amz-Credential=hunter2",
        "https://h/x?X-Goog-Signature=hunter2",
        "https://h/x?api_key=hunter2",
        "{'password': 'hunter2'}",
        '{"client_secret": "hunter2"}',
        'sasl.jaas.config=x required username="a" password="hunter2";',
        "AccountName=a;AccountKey=hunter2==;EndpointSuffix=core",
        "pwd=hunter2",
    ],
)
def test_what_is_shaped_like_a_credential_is_blanked(text: str) -> None:
    """Secrets that are not in the settings: those of warehouses, and those that other servers' responses repeat."""
    assert "hunter2" not in redact(None, "info", {"error": text})["error"]


@pytest.mark.parametrize(
    "text",
    [
        "abfss://files@account.dfs.core.windows.net/a/b",
        "namespaces/a/tables/b: 3 tokens, 7 secrets",
        "s3://lake/a=b/c@d",
        "at 127.0.0.1:9 after 3 s",
        "password authentication failed",
    ],
)
def test_what_only_looks_alike_is_shown(text: str) -> None:
    """Negative control."""
    assert {"error": text} == redact(None, "info", {"error": text})


def test_a_secret_at_the_end_of_what_is_shown_is_not_cut_in_half(capsys: pytest.CaptureFixture[str]) -> None:
    """A long text is redacted before it is shortened."""
    configure_logs_for(Settings(database_url=SecretStr("postgresql://icecore:canary-database@h/d"), log_format="json"))
    for number in range(4_080, 4_100):
        structlog.get_logger("icecore.x").info("x" * number + "canary-database" + "y" * 100)
    assert "canar" not in capsys.readouterr().err


def test_what_no_handler_catches_is_logged_and_blanked() -> None:
    """In the main thread, in another, and in a destructor. Python's own output is not redacted."""
    program = """
import sys, threading
from pydantic import SecretStr
from icecore.logs import configure_logs_for, log_uncaught
from icecore.settings import Settings
configure_logs_for(Settings(database_url=SecretStr("postgresql://icecore:canary-database@h/d"), log_format="json"))
log_uncaught()
def broken(): raise RuntimeError("canary-database")
class Broken:
    def __del__(self): broken()
thread = threading.Thread(target=broken)
thread.start()
thread.join()
Broken()
broken()
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False)
    assert 1 == ended.returncode
    assert "canary" not in ended.stdout + ended.stderr
    assert 3 == sum("RuntimeError: ***" in json.loads(line)["exception"] for line in ended.stderr.splitlines())


@pytest.mark.parametrize("program", ["icecore.serving_process"])
def test_what_a_process_of_ours_does_not_catch_goes_through_the_log(program: str) -> None:
    """A worker gets its settings, including secrets, from the supervisor on a line of JSON. Here the line is invalid."""
    settings = Settings(database_url=SecretStr("postgresql://icecore:canary-database@h/d"), log_format="json").to_json()
    given = json.dumps({"settings": settings, "secret-keys": [base64.b64encode(bytes(32)).decode()], "descriptors": []}) + "\n"
    ended = subprocess.run([sys.executable, "-m", program], input=given, capture_output=True, text=True, timeout=60, check=False)
    assert 1 == ended.returncode
    assert ["uncaught_exception"] == [json.loads(line)["event"] for line in ended.stderr.splitlines()]


def test_no_text_takes_long_to_look_through() -> None:
    """The patterns take almost linear time."""
    for text in ("a" * 1_000_000, "a://a:" * 100_000 + "@", "@" + "a://a:" * 100_000, "password=" * 100_000, "password='" * 100_000):
        started = time.process_time()
        redact(None, "info", {"error": text})
        assert time.process_time() - started < 1


@pytest.mark.parametrize("repeated", ["a://:", "a://u", "a://@ ", "-a", "password='", "bearer ", "authorization "])
@pytest.mark.parametrize("start", ["", "Traceback (most recent call last):\n"])
def test_a_text_chosen_by_a_client_is_searched_quickly(start: str, repeated: str) -> None:
    """64 KiB of beginnings of secrets. Traces are shortened too, but keep their last line."""
    text = start + repeated * (64 * 1024 // len(repeated)) + " @\nValueError: last"
    began = time.process_time()
    shown = redact(None, "info", {"exception": text})["exception"]
    assert time.process_time() - began < 0.5
    assert len(shown) <= (33 * 1024 if start else 5 * 1024)
    assert not start or shown.endswith("ValueError: last")


def test_a_password_of_any_length_is_blanked_in_a_trace() -> None:
    """Tokens used as passwords may have thousands of characters."""
    text = f"Traceback (most recent call last):\nOSError: postgresql://u:{'p@' * 5_000}@db/x"
    assert "OSError: postgresql://***@db/x" in redact(None, "info", {"exception": text})["exception"]

"""Logs: one record a line, with what belongs in it and without secrets."""

import json
import logging
from collections.abc import Iterator
from typing import Literal

import pytest
import structlog

from icecore.logs import REDACTED, configure_logs, redact, redacted_url


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """The tests configure the process's logging; pytest's own comes back afterwards."""
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
    """Errors of libraries quote connection strings and addresses."""
    assert {"error": shown} == redact(None, "info", {"error": text})
    assert {"error": f"ValueError: {shown}"} == redact(None, "info", {"error": ValueError(text)})


def test_ids_and_numbers_stay() -> None:
    """What finds a record again is not a secret."""
    record = {"request_id": "r", "idempotency_key": "k", "secret_ref": "s", "status": 200, "ok": True, "nothing": None}
    assert record == redact(None, "info", dict(record))


def test_bytes_are_counted_and_long_texts_cut() -> None:
    """A body that comes along by accident does not go out."""
    assert {"state": "<3 bytes>"} == redact(None, "info", {"state": b"abc"})
    assert len(str(redact(None, "info", {"text": "x" * 100_000})["text"])) < 5_000


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://icecore:hunter2@db:5432/x?sslpassword=hunter3", "postgresql://icecore@db:5432/x"),
        ("postgresql:///x", "postgresql:///x"),
        ("host=db password=hunter2", "host=db password=***"),
    ],
)
def test_a_database_is_shown_without_its_password(url: str, shown: str) -> None:
    """At the start of a server, for people."""
    assert shown == redacted_url(url)


@pytest.mark.parametrize("form", ["json", "console"])
def test_both_forms_carry_context_and_blank_secrets_of_libraries_too(
    form: Literal["json", "console"], capsys: pytest.CaptureFixture[str]
) -> None:
    """One chain for our records and for those of the standard library; nothing on standard output."""
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


def test_a_trace_is_logged_and_its_secrets_are_not(capsys: pytest.CaptureFixture[str]) -> None:
    """The text of an error stands at the end of its trace."""
    configure_logs("info", "json")
    try:
        raise RuntimeError("postgresql://icecore:hunter2@db/x")
    except RuntimeError as error:
        structlog.get_logger("icecore.x").error("broke", exc_info=error)
    record = json.loads(capsys.readouterr().err)
    assert "test_logs.py" in record["exception"]
    assert "RuntimeError: postgresql://***@db/x" in record["exception"]

"""Webhooks: signatures that Standard Webhooks' libraries verify, and pauses that an endpoint requests."""

import base64
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import SecretStr

from icecore.publishers.sink import SinkError
from icecore.publishers.sink_settings import WebhookSink
from icecore.publishers.webhook import RETRY_AFTER_SECONDS_MAX, retry_after_seconds, signature, signing_key


def test_the_published_example_of_standard_webhooks() -> None:
    """The test vector of the specification's reference libraries."""
    settings = WebhookSink(type="webhook", url="https://x", secret="whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")  # type: ignore[arg-type]
    key = signing_key(settings.secret, settings.secret_file)
    headers = signature(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    } == headers


def test_any_other_secret_is_taken_as_it_stands() -> None:
    """Even if it looks like base64."""
    text = base64.b64encode(b"key").decode()
    settings = WebhookSink(type="webhook", url="https://x", secret=text)  # type: ignore[arg-type]
    assert text.encode() == signing_key(settings.secret, settings.secret_file)


@pytest.mark.parametrize(
    ("secret", "message"),
    [
        ("", "the setting secret contains no secret"),
        ("whsec_", "the setting secret contains no secret"),
        ("whsec_abc", "what follows whsec_ in the setting secret is not base64"),
        ("whsec_ä", "what follows whsec_ in the setting secret is not base64"),
        ("whsec_a$Vt", "what follows whsec_ in the setting secret is not base64"),
    ],
)
def test_a_secret_that_signs_nothing_is_refused(secret: str, message: str) -> None:
    with pytest.raises(SinkError, match=f"^{message}"):
        signing_key(SecretStr(secret), None)


def test_an_empty_file_of_a_secret_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("\n")
    with pytest.raises(SinkError, match=r"^the setting secret_file contains no secret"):
        signing_key(None, tmp_path / "secret")


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7.0),
        (" 0 ", 0.0),
        ("86400", RETRY_AFTER_SECONDS_MAX),
        ("9" * 10_000, RETRY_AFTER_SECONDS_MAX),
        ("Sun, 01 Mar 2026 12:00:20 GMT", 20.0),
        ("Sun, 01 Mar 2026 11:00:00 GMT", 0.0),
        ("Sun, 01 Mar 2026 13:00:20 +0100", 20.0),
        ("Sun, 01 Mar 2026 12:00:20 -0000", 20.0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", RETRY_AFTER_SECONDS_MAX),
        ("-3", 0.0),
        ("1.5", 0.0),
        ("٣", 0.0),
        ("soon", 0.0),
        ("Sun, 99 Mar 99999999999999999999 12:00:20 GMT", 0.0),
        ("", 0.0),
        (None, 0.0),
    ],
)
def test_how_long_an_endpoint_asks_to_be_left_alone(header: str | None, seconds: float) -> None:
    """Seconds or a date (RFC 9110), at most a minute. Invalid values are ignored."""
    assert seconds == retry_after_seconds(header, datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC))

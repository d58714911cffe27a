"""Webhook signatures: those of Standard Webhooks, so that its libraries verify them."""

import base64

from publishers.sink_settings import WebhookSink
from publishers.webhook import signature, signing_key


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
    """Also one that looks like base64."""
    text = base64.b64encode(b"key").decode()
    settings = WebhookSink(type="webhook", url="https://x", secret=text)  # type: ignore[arg-type]
    assert text.encode() == signing_key(settings.secret, settings.secret_file)

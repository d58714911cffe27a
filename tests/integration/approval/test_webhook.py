"""A webhook as an approval hook: its request, the signature, and the effect of invalid responses."""

import asyncio
import base64
import hmac
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from icecore.approval.webhook import RESPONSE_BYTES_MAX
from icecore.hooks import opened_hooks
from icecore.settings import Settings, SettingsError
from tests.fixtures.catalog import served_catalog
from tests.fixtures.rest_client import set_properties
from tests.integration.approval.judging import Approver, held

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
KEY = base64.b64decode(SECRET.removeprefix("whsec_"))
ALLOWED = b'{"verdict": "allow"}'

Response = Callable[[BaseHTTPRequestHandler], None]


class Endpoint:
    """A real HTTP server that records requests and responses as configured. A wrong signature gets 401."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.ids: list[str] = []
        self.paths: list[str] = []
        self.response: Response = say(ALLOWED)
        self.released = threading.Event()
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                endpoint.paths.append(self.path)
                say(ALLOWED)(self)

            def do_POST(self) -> None:
                endpoint.paths.append(self.path)
                body = self.rfile.read(int(self.headers["Content-Length"]))
                signed = f"{self.headers['webhook-id']}.{self.headers['webhook-timestamp']}.".encode() + body
                expected = base64.b64encode(hmac.digest(KEY, signed, "sha256")).decode()
                if self.headers["webhook-signature"] != f"v1,{expected}":
                    self.send_error(401)
                    return
                endpoint.ids.append(self.headers["webhook-id"])
                endpoint.sent.append(json.loads(body))
                endpoint.response(self)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, name="endpoint")
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/review"

    def hang(self, _: BaseHTTPRequestHandler) -> None:
        """Hangs until the end of the test."""
        self.released.wait(60)

    def close(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def say(body: bytes, status: int = 200, **headers: str) -> Response:
    def response(request: BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}.items():
            request.send_header(name.replace("_", "-"), value)
        request.end_headers()
        with suppress(ConnectionError):  # The client may have closed the connection.
            request.wfile.write(body)

    return response


def break_off(request: BaseHTTPRequestHandler) -> None:
    request.connection.close()


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    """On a free port of loopback."""
    opened = Endpoint()
    yield opened
    opened.close()


@contextmanager
def asked(database: str, folder: Path, endpoint: Endpoint, **settings: Any) -> Iterator[Approver]:
    """A client of a server with the endpoint in its settings."""
    hook = {"type": "webhook", "url": endpoint.url, "secret": SECRET, "timeout_seconds": 0.5, **settings}
    with served_catalog(database, folder / "warehouse", hooks={"contracts": hook}) as server:
        client = Approver(server.url)
        yield client
        client.close()


def test_what_it_is_sent(database: str, tmp_path: Path, endpoint: Endpoint) -> None:
    """The change with documents before and after, without a table's history, and with the namespaces' properties."""
    with asked(database, tmp_path, endpoint) as client:
        client.create_namespace("a", owner="me")
        client.create_namespace("a", "b", inner="1")
        client.create_table(["a", "b"], "t")
        client.commit(["a", "b"], "t", set_properties(k="v"))
    assert ["createNamespace", "createNamespace", "createTable", "updateTable"] == [each["operation"] for each in endpoint.sent]
    commit = endpoint.sent[-1]
    assert ("demo", None, "anonymous") == (commit["warehouse"]["name"], commit["approves"], commit["actor"])
    (changed,) = commit["changes"]
    assert ("table", ["a", "b", "t"], ["table.committed.v1"]) == (changed["kind"], changed["name"], changed["topics"])
    assert ("v", None) == (changed["after"]["properties"]["k"], changed["before"]["properties"].get("k"))
    shown = changed["namespace-properties"]
    assert all(each.pop("location") for each in shown)
    assert [{"owner": "me"}, {"inner": "1"}] == shown
    assert not {"snapshots", "snapshot-log", "metadata-log"} & set(changed["after"])
    assert len(endpoint.ids) == len(set(endpoint.ids))


def test_its_verdicts(database: str, tmp_path: Path, endpoint: Endpoint) -> None:
    """Allow, refuse and hold. A webhook that holds also gets the approval."""
    with asked(database, tmp_path, endpoint) as client:
        assert client.create_namespace("a").status == 200
        endpoint.response = say(b'{"verdict": "refuse", "reason": "no such owner"}')
        refused = client.create_namespace("n")
        assert ((409, "ChangeRefusedException"), "Refused by contracts: no such owner") == (refused.error, refused.message)
        endpoint.response = say(b'{"verdict": "hold", "reason": "ask them", "expires-in-seconds": 60}')
        proposal_id = held(client.create_namespace("n"))
        assert 200 == client.approve(proposal_id).status
        assert proposal_id == endpoint.sent[-1]["approves"]
        assert client.call("GET", "/namespaces/n").status == 200


RESPONSES: dict[str, Response | str] = {
    "hangs": "hang",
    "breaks off": break_off,
    "returns 500": say(b'{"verdict": "allow"}', 500),
    "returns 204": say(b"", 204),
    "returns 404": say(b"", 404),
    "redirects": say(b"", 307, Location="http://127.0.0.1:9/"),
    "returns no JSON": say(b"<html>"),
    "returns nothing": say(b""),
    "returns a list": say(b"[]"),
    "returns no verdict it knows": say(b'{"verdict": "perhaps"}'),
    "returns true": say(b'{"verdict": true}'),
    "refuses without words": say(b'{"verdict": "refuse"}'),
    "refuses with an empty reason": say(b'{"verdict": "refuse", "reason": ""}'),
    "holds without an end": say(b'{"verdict": "hold", "reason": "x"}'),
    "holds for a text": say(b'{"verdict": "hold", "reason": "x", "expires-in-seconds": "60"}'),
    "holds for true": say(b'{"verdict": "hold", "reason": "x", "expires-in-seconds": true}'),
    "holds for 10^300 seconds": say(b'{"verdict": "hold", "reason": "x", "expires-in-seconds": 1e300}'),
    "responds without end": say(ALLOWED + b" " * (RESPONSE_BYTES_MAX + 1)),
    "returns what is no gzip": say(b"no gzip", Content_Encoding="gzip"),
    "returns bytes that are no text": say(b"\xff\xfe\x00{"),
}


@pytest.mark.parametrize("on_failure", ["refuse", "allow"])
def test_every_way_not_to_respond(database: str, tmp_path: Path, endpoint: Endpoint, on_failure: str) -> None:
    """`refuse`: 503, nothing done, retryable. `allow`: the change takes effect."""
    with asked(database, tmp_path, endpoint, on_failure=on_failure) as client:
        assert client.create_namespace("a").status == 200
        for number, (what, response) in enumerate(RESPONSES.items()):
            endpoint.response = endpoint.hang if response == "hang" else response  # type: ignore[assignment]
            created = client.create_namespace(f"n{number}")
            if on_failure == "allow":
                assert 200 == created.status, what
            else:
                assert (503, "ApprovalUnavailableException") == created.error, what
                assert "contracts" in created.message
        endpoint.response = say(ALLOWED)
        assert client.create_namespace("z").status == 200
        there = {name for (name,) in client.call("GET", "/namespaces").json["namespaces"]}
        expected = {f"n{number}" for number in range(len(RESPONSES))} if on_failure == "allow" else set()
        assert {"a", "z", *expected} == there


@pytest.mark.parametrize("status", [303, 307])
def test_no_redirect_is_followed(database: str, tmp_path: Path, endpoint: Endpoint, status: int) -> None:
    """The redirect's target gets no request."""
    endpoint.response = say(b"", status, Location=f"{endpoint.url}/elsewhere")
    with asked(database, tmp_path, endpoint) as client:
        assert (503, "ApprovalUnavailableException") == client.create_namespace("a").error
    assert ["/review"] == endpoint.paths


def test_an_endpoint_that_is_not_there(database: str, tmp_path: Path) -> None:
    """A closed port counts as no verdict."""
    gone = Endpoint()
    gone.close()
    with asked(database, tmp_path, gone) as client:
        assert (503, "ApprovalUnavailableException") == client.create_namespace("a").error


def test_a_filtered_endpoint_is_asked_about_its_own(database: str, tmp_path: Path, endpoint: Endpoint) -> None:
    """By operation and namespace, before and after a move. Other changes are not sent."""
    chosen = {"operations": ["updateTable", "rename*"], "namespaces": ["sales"]}
    with asked(database, tmp_path, endpoint, **chosen) as client:
        for levels in (("sales",), ("sales", "eu"), ("salesroom",)):
            client.create_namespace(*levels)
            client.create_table(levels, "t")
            client.commit(levels, "t", set_properties(k="v"))
        client.rename_table((["salesroom"], "t"), (["sales"], "u"))
        client.rename_table((["sales"], "u"), (["salesroom"], "t"))
    names = [(each["operation"], each["changes"][0]["name-before"]) for each in endpoint.sent]
    assert names == [
        ("updateTable", ["sales", "t"]),
        ("updateTable", ["sales", "eu", "t"]),
        ("renameTable", ["salesroom", "t"]),
        ("renameTable", ["sales", "u"]),
    ]


@pytest.mark.parametrize(
    ("hook", "message"),
    [
        ({"type": "plugin", "plugin": "no-such"}, "'no-such'; installed in the group icecore.approval_hooks: schema-contract"),
        ({"type": "plugin", "plugin": "schema-contract", "options": {"x": 1}}, "cannot be created"),
        ({"type": "webhook", "url": "http://x", "secret_file": "/nowhere/at/all"}, "the file of the setting secret_file cannot be read"),
        ({"type": "webhook", "url": "http://x", "secret": "whsec_é"}, "what follows whsec_ in the setting secret is not base64"),
    ],
)  # fmt: skip
def test_an_invalid_hook_is_refused_at_the_start(hook: dict[str, Any], message: str) -> None:
    """Not at the first change."""

    async def start() -> None:
        settings = Settings(hooks={"contracts": hook})  # type: ignore[dict-item]
        async with opened_hooks(settings):
            pass

    with pytest.raises(SettingsError, match="The hook contracts") as refused:
        asyncio.run(start())
    assert message in str(refused.value)

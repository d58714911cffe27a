"""Web pages and a catalog in a real browser: requests of foreign pages, DNS rebinding, and permitted origins."""

import http.client
import http.server
import json
import queue
import threading
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from icecore.api.request_metrics import REQUEST_METRICS, RequestMetrics
from icecore.compose import Application
from tests.fixtures.catalog import CatalogServer, served_catalog
from tests.fixtures.rest_client import RestClient
from tests.servers.chromium import browsing

REPORT_SECONDS_MAX = 60.0

FOREIGN_PAGE = """<!doctype html><title>foreign</title><iframe name="sink"></iframe><script>
const target = TARGET, namespaces = target + "/catalog/v1/demo/namespaces", table = namespaces + "/kept/tables/orders";
const plain = (name) => JSON.stringify({namespace: [name]});
const send = (url, options) => fetch(url, {mode: "no-cors", ...options}).then((r) => r.type, (e) => String(e));
function submit(url, enctype, field) {
  const form = document.createElement("form");
  Object.assign(form, {action: url, method: "post", enctype, target: "sink"});
  if (field) { const input = document.createElement("input"); input.name = field; input.value = '"}'; form.append(input); }
  document.body.append(form);
  return new Promise((done) => { document.querySelector("iframe").onload = done; form.submit(); });
}
async function read(path, options) {
  try { const response = await fetch(path, options); return [response.status, await response.text()]; } catch (e) { return [0, String(e)]; }
}
window.onload = async () => {
  const found = {};
  found.text = await send(namespaces, {method: "POST", body: plain("by_text")});
  found.typeless = await send(namespaces, {method: "POST", body: new Blob([plain("by_blob")])});
  found.bodyless = await send(table + "/unregister", {method: "POST"});
  await submit(namespaces, "text/plain", '{"namespace": ["by_form"], "x": "');
  await submit(table + "/unregister", "application/x-www-form-urlencoded", null);
  found.json = await read(namespaces, {method: "POST", headers: {"Content-Type": "application/json"}, body: plain("by_json")});
  found.drop = await read(table, {method: "DELETE"});
  found.foreign_read = await read(namespaces);
  // The name of this page leads to the catalog from now on.
  found.rebound_read = await read("/catalog/v1/demo/namespaces");
  found.rebound_drop = await read("/catalog/v1/demo/namespaces/kept/tables/orders", {method: "DELETE"});
  await fetch("/report", {method: "POST", body: JSON.stringify(found)});
};
</script>"""

PERMITTED_PAGE = """<!doctype html><title>permitted</title><script>
window.onload = async () => {
  const url = TARGET + "/catalog/v1/demo/namespaces", headers = {"Content-Type": "application/json", "Idempotency-Key": KEY};
  const made = await fetch(url, {method: "POST", headers, body: JSON.stringify({namespace: ["by_app"]})});
  const missing = await fetch(url + "/nowhere");
  const dropped = await fetch(url + "/by_app", {method: "DELETE"});
  const found = {
    made: [made.status, (await made.json()).namespace, made.headers.get("Icecore-Position") !== null],
    missing: [missing.status, (await missing.json()).error.type], dropped: dropped.status,
  };
  await fetch("/report", {method: "POST", body: JSON.stringify(found)});
};
</script>"""


class Site:
    """A web site: its page, the findings that the page reports, and paths below `/catalog`, which are forwarded unchanged as with a rebound
    name.

    page, catalog -- set before the browser starts.
    """

    def __init__(self) -> None:
        self.page, self.catalog = "", ""
        self._reports: queue.Queue[dict[str, Any]] = queue.Queue()
        site = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path.startswith("/catalog/"):
                    self.relay()
                else:
                    self.response(200, site.page.encode(), "text/html")

            def do_DELETE(self) -> None:
                self.relay()

            def do_POST(self) -> None:
                site._reports.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.response(200, b"", "text/plain")

            def relay(self) -> None:
                with closing(http.client.HTTPConnection(urlsplit(site.catalog).netloc, timeout=30)) as connection:
                    connection.request(self.command, self.path, headers=dict(self.headers))
                    response = connection.getresponse()
                    self.response(response.status, response.read(), "application/json")

            def response(self, status: int, body: bytes, kind: str) -> None:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 - the name of the base class
                """Logs nothing."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def show(self, template: str, server: CatalogServer) -> None:
        self.page = template.replace("TARGET", json.dumps(server.url)).replace("KEY", json.dumps(str(uuid.uuid4())))
        self.catalog = server.url

    def report(self) -> dict[str, Any]:
        """Receives a finding of the page."""
        return self._reports.get(timeout=REPORT_SECONDS_MAX)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def site() -> Iterator[Site]:
    with closing(Site()) as opened:
        yield opened


def test_a_foreign_web_page_changes_nothing_and_a_rebound_name_reads_nothing(database: str, tmp_path: Path, site: Site) -> None:
    """fetch without CORS, forms, requests without a body, and a page whose host name resolves to the catalog."""
    figures: list[RequestMetrics] = []

    def prepare(catalog: Application) -> None:
        figures.append(catalog.app[REQUEST_METRICS])

    with served_catalog(database, tmp_path / "warehouse", prepare=prepare) as server:
        client = RestClient(server.url, "demo")
        client.create_namespace("kept")
        assert 200 == client.create_table(("kept",), "orders").status
        site.show(FOREIGN_PAGE, server)
        with browsing(f"http://evil.test:{site.port}/page", tmp_path / "profile", "--host-resolver-rules=MAP evil.test 127.0.0.1"):
            found = site.report()
        assert [["kept"]] == client.call("GET", "/namespaces").json["namespaces"]
        assert 200 == client.load_table(("kept",), "orders").status
        client.close()
    assert ["opaque"] * 3 == [found[name] for name in ("text", "typeless", "bodyless")], "the requests were sent"
    assert [0] * 3 == [found[name][0] for name in ("json", "drop", "foreign_read")], "the browser asks first, and hides what it reads"
    assert [403] * 2 == [found[name][0] for name in ("rebound_read", "rebound_drop")]
    assert "kept" not in json.dumps(found)
    # Three requests without CORS, two forms, two preflight requests, two through the rebound name.
    assert 9 == figures[0].errors["ForbiddenException"]


def test_a_page_of_a_permitted_origin_uses_the_catalog(database: str, tmp_path: Path, site: Site) -> None:
    """With preflight requests, CORS headers and readable errors."""
    origin = f"http://app.test:{site.port}"
    with served_catalog(database, tmp_path / "warehouse", cors_origins=(origin,)) as server:
        site.show(PERMITTED_PAGE, server)
        with browsing(f"{origin}/page", tmp_path / "profile", "--host-resolver-rules=MAP app.test 127.0.0.1"):
            found = site.report()
    assert {"made": [200, ["by_app"], True], "missing": [404, "NoSuchNamespaceException"], "dropped": 204} == found

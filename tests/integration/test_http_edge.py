"""Attacks over raw HTTP on a running catalog: each is refused in Iceberg's form and leaves nothing in the log.

The table follows the classes of attack of its kind of product: A1 traversal in locations, A3 metadata that points elsewhere, A4 foreign
metadata registered, A11 size bombs, A12 the namespace separator, A13 Unicode names, A17 text the database would choke on.
"""

import gzip
import http.client
import json
import re
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, urlsplit

import pytest

from tests.fixtures.catalog import CatalogServer
from tests.fixtures.shared_catalog import shared_catalog

PREFIX = "/catalog/v1/demo"

Json = dict[str, Any]

SCHEMA: Json = {"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "id", "type": "long", "required": False}]}


class Answered(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error_type(self) -> str:
        assert {"message", "type", "code"} == set(self.json["error"])
        assert self.status == self.json["error"]["code"]
        assert self.headers["x-request-id"]
        return str(self.json["error"]["type"])


class Client:
    """Sends exactly the given path and bytes; other clients normalize them."""

    def __init__(self, address: str) -> None:
        self._host = urlsplit(address).netloc

    def send(self, method: str, path: str, body: bytes | Json | None = None, headers: dict[str, str] | None = None) -> Answered:
        connection = http.client.HTTPConnection(self._host, timeout=30)
        try:
            content = json.dumps(body).encode() if isinstance(body, dict) else body
            connection.putrequest(method, path, skip_accept_encoding=True)
            if content is not None:
                connection.putheader("Content-Length", str(len(content)))
                connection.putheader("Content-Type", "application/json")
            for name, value in (headers or {}).items():
                connection.putheader(name, value)
            connection.endheaders(content)
            response = connection.getresponse()
            return Answered(response.status, {name.lower(): value for name, value in response.getheaders()}, response.read())
        finally:
            connection.close()

    def create_namespace(self) -> str:
        name = f"edge_{uuid.uuid4().hex}"
        assert 200 == self.send("POST", f"{PREFIX}/namespaces", {"namespace": [name]}).status
        return name

    def position(self) -> int:
        """The log's position after one small event."""
        answered = self.send("POST", f"{PREFIX}/namespaces", {"namespace": [f"mark_{uuid.uuid4().hex}"]})
        return int(answered.headers["icecore-position"])


class Ground(NamedTuple):
    """A namespace with a table, and what an attacker would need to know."""

    client: Client
    namespace: str
    table: Json
    base: str

    @property
    def tables(self) -> str:
        return f"{PREFIX}/namespaces/{self.namespace}/tables"

    @property
    def directory(self) -> Path:
        return Path(unquote(urlsplit(self.base).path))

    def write_metadata(self, document: Json | bytes, *, suffix: str = ".metadata.json", folder: str | None = None) -> str:
        """Writes a metadata file below the warehouse, as another engine might. Returns its location."""
        folder = folder or f"imported-{uuid.uuid4().hex}"
        path = self.directory / folder / "metadata" / f"00000-{uuid.uuid4()}{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(document if isinstance(document, bytes) else json.dumps(document).encode())
        return f"{self.base}/{folder}/metadata/{path.name}"


@pytest.fixture(scope="module")
def server(admin_dsn: str, template_database: str) -> Iterator[CatalogServer]:
    with shared_catalog(admin_dsn, template_database) as shared:
        yield shared


@pytest.fixture
def client(server: CatalogServer) -> Client:
    return Client(server.url)


@pytest.fixture
def ground(client: Client) -> Ground:
    namespace = client.create_namespace()
    answered = client.send("POST", f"{PREFIX}/namespaces/{namespace}/tables", {"name": "orders", "schema": SCHEMA})
    assert 200 == answered.status
    table = answered.json["metadata"]
    return Ground(client, namespace, table, table["location"].rsplit("/", 2)[0])


@pytest.fixture
def untouched(client: Client, ground: Ground) -> Iterator[None]:
    """Asserts that the test added no event to the log."""
    before = client.position()
    yield
    assert before + 1 == client.position()


BELOW_BASE = [
    "/..",
    "/../x",
    "/a/../../x",
    "/a/..",
    "/./a",
    "/.",
    "//a",
    "/a//b",
    "/%2e%2e/x",
    "/%2E%2E%2Fx",
    "/a%2Fb",
    "/a%00",
    "/%252e%252e/x",
    "/..\\x",
    "/a\\..\\b",
    "/a*",
    "/*",
    "/a?b",
    "/a#b",
    "/${aws:username}",
    "/{a}",
    "/a'b",
    '/a"b',
    "/a`b",
    "/<a>",
    "/a\u202eb",
    "/a\u200bb",
    "/a\ufeffb",
    "/a\nb",
    "/a\rb",
    "/a\tb",
    "/a\x7fb",
    "/a\u0085b",
    "/a\u2028b",
    "/e\u0301",
    "/\ue000",
    "/" + "a" * 1_025,
    "/" + "é" * 513,
]
ELSEWHERE = [
    "",
    "/",
    "orders",
    "/etc/passwd",
    "file:",
    "file:///",
    "file:///etc",
    "file://localhost/etc",
    "file:etc",
    "FILE:///etc",
    "s3://another-bucket/orders",
    "gs://another-bucket/orders",
    "http://127.0.0.1/x",
    "jar:file:///x!/y",
    "javascript:alert(1)",
    " file:///etc",
]

Attack = Callable[[Ground, str], tuple[str, str, Json]]


def commit(update: Json) -> Json:
    return {"requirements": [], "updates": [update]}


def snapshot(manifest_list: str) -> Json:
    return {
        "snapshot-id": 1,
        "sequence-number": 1,
        "timestamp-ms": int(time.time() * 1000),
        "summary": {"operation": "append"},
        "manifest-list": manifest_list,
        "schema-id": 0,
    }


def statistics(path: str) -> Json:
    return {"snapshot-id": 1, "statistics-path": path, "file-size-in-bytes": 1, "file-footer-size-in-bytes": 1, "blob-metadata": []}


def partition_statistics(path: str) -> Json:
    return {"snapshot-id": 1, "statistics-path": path, "file-size-in-bytes": 1}


def view(location: str) -> Json:
    version = {
        "version-id": 1,
        "timestamp-ms": int(time.time() * 1000),
        "schema-id": 0,
        "summary": {},
        "representations": [{"type": "sql", "sql": "select 1", "dialect": "spark"}],
        "default-namespace": ["a"],
    }
    return {"name": "v", "location": location, "schema": SCHEMA, "view-version": version, "properties": {}}


DOORS: dict[str, Attack] = {
    "createTable": lambda g, x: ("POST", g.tables, {"name": "t", "schema": SCHEMA, "location": x}),
    "createTable staged": lambda g, x: ("POST", g.tables, {"name": "t", "schema": SCHEMA, "location": x, "stage-create": True}),
    "createTable write.data.path": lambda g, x: (
        "POST",
        g.tables,
        {"name": "t", "schema": SCHEMA, "properties": {"write.data.path": x}},
    ),
    "createView": lambda g, x: ("POST", f"{PREFIX}/namespaces/{g.namespace}/views", view(x)),
    "registerTable": lambda g, x: (
        "POST",
        f"{PREFIX}/namespaces/{g.namespace}/register",
        {"name": "t", "metadata-location": f"{x}/metadata/1.metadata.json"},
    ),
    "registerView": lambda g, x: (
        "POST",
        f"{PREFIX}/namespaces/{g.namespace}/register-view",
        {"name": "v", "metadata-location": f"{x}/metadata/1.metadata.json"},
    ),
    "set-location": lambda g, x: ("POST", f"{g.tables}/orders", commit({"action": "set-location", "location": x})),
    "write.data.path": lambda g, x: (
        "POST",
        f"{g.tables}/orders",
        commit({"action": "set-properties", "updates": {"write.data.path": x}}),
    ),
    "write.metadata.path": lambda g, x: (
        "POST",
        f"{g.tables}/orders",
        commit({"action": "set-properties", "updates": {"write.metadata.path": x}}),
    ),
    "write.object-storage.path": lambda g, x: (
        "POST",
        f"{g.tables}/orders",
        commit({"action": "set-properties", "updates": {"write.object-storage.path": x}}),
    ),
    "manifest-list": lambda g, x: ("POST", f"{g.tables}/orders", commit({"action": "add-snapshot", "snapshot": snapshot(x)})),
    "statistics": lambda g, x: ("POST", f"{g.tables}/orders", commit({"action": "set-statistics", "statistics": statistics(x)})),
    "partition-statistics": lambda g, x: (
        "POST",
        f"{g.tables}/orders",
        commit({"action": "set-partition-statistics", "partition-statistics": partition_statistics(x)}),
    ),
    "transaction": lambda g, x: (
        "POST",
        f"{PREFIX}/transactions/commit",
        {
            "table-changes": [
                {"identifier": {"namespace": [g.namespace], "name": "orders"}, **commit({"action": "set-location", "location": x})}
            ]
        },
    ),
}


IMPORTS = ("registerTable", "registerView")
"""Files of other engines may have `%` in their names. It is never decoded, so that `%2e%2e` is an ordinary folder name."""

STRIPPED = ("set-location", "transaction")
"""Java's set-location removes trailing slashes before the location is checked."""


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize("door", DOORS)
def test_a1_no_location_leads_out_of_the_warehouse(ground: Ground, door: str) -> None:
    """A1, CVE-2026-42809, CVE-2026-42812: every spelling is a 400 for every request, and invalid names are not written."""
    spellings = [ground.base + suffix for suffix in BELOW_BASE] + ELSEWHERE
    if door not in STRIPPED:
        spellings.append(f"{ground.base}/a//")
    not_refused = []
    for location in spellings:
        method, path, body = DOORS[door](ground, location)
        answered = ground.client.send(method, path, body)
        expected = {400, 404} if door in IMPORTS and "%" in location else {400}
        if answered.status not in expected or not answered.error_type:
            not_refused.append((location, answered.status, answered.body[:200]))
    assert [] == not_refused


@pytest.mark.parametrize("door", DOORS)
def test_a1_the_same_requests_are_taken_with_a_place_inside(ground: Ground, door: str) -> None:
    """Control: with a valid location they are accepted, except that the file to import is missing."""
    inside = ground.table["location"] if door.endswith(("list", "statistics")) else ground.base
    method, path, body = DOORS[door](ground, f"{inside}/{uuid.uuid4().hex}")
    answered = ground.client.send(method, path, body)
    assert (404 if door in IMPORTS else 204 if door == "transaction" else 200) == answered.status, answered.body


def test_a1_trailing_slashes_of_set_location_leave_no_empty_segment(ground: Ground) -> None:
    """The location is stored without them."""
    update = {"action": "set-location", "location": f"{ground.base}/moved//"}
    answered = ground.client.send("POST", f"{ground.tables}/orders", commit(update))
    assert f"{ground.base}/moved" == answered.json["metadata"]["location"]


def test_a1_a_neighbour_whose_name_begins_alike_is_elsewhere(ground: Ground) -> None:
    """`…/warehouse-evil` is not inside `…/warehouse`."""
    answered = ground.client.send("POST", ground.tables, {"name": "t", "schema": SCHEMA, "location": f"{ground.base}-evil/t"})
    assert (400, "BadRequestException") == (answered.status, answered.error_type)


@pytest.mark.parametrize(
    "path",
    [
        f"{PREFIX}/namespaces/../config",
        f"{PREFIX}/./namespaces",
        f"{PREFIX}//namespaces",
        f"{PREFIX}/namespaces/",
        f"{PREFIX}/namespaces/a/",
        f"{PREFIX}/namespaces/a//tables",
        "/catalog//v1/demo/namespaces",
        "/catalog/v1",
        "/catalog%2Fv1/config",
        "/catalog/v1/demo%2Fnamespaces",
        "/%2e%2e/v1/config",
    ],
)
def test_a1_addresses_are_not_normalised(client: Client, path: str) -> None:
    """A path with dots, or doubled or encoded slashes, is not found."""
    answered = client.send("GET", path)
    assert (404, "NotFoundException") == (answered.status, answered.error_type)


@pytest.mark.parametrize("name", ["..", "../../x", ".", "a\\b", "%2e%2e", "*", "${x}", "a'b", "<script>", "a%b"])
def test_a1_names_that_no_path_can_have_are_refused(client: Client, name: str) -> None:
    """Engines put the names of tables into locations."""
    tables = f"{PREFIX}/namespaces/{client.create_namespace()}/tables"
    refused = client.send("POST", tables, {"name": name, "schema": SCHEMA})
    assert (400, "BadRequestException") == (refused.status, refused.error_type)
    assert "Invalid table name" in refused.json["error"]["message"]
    assert [] == client.send("GET", tables).json["identifiers"]


@pytest.mark.parametrize("name", ["a/b", "a b", "a+b", "a..b"])
def test_a1_names_are_names_and_never_paths(client: Client, name: str) -> None:
    """A table with such a name has a location without the name."""
    namespace = client.create_namespace()
    tables = f"{PREFIX}/namespaces/{namespace}/tables"
    created = client.send("POST", tables, {"name": name, "schema": SCHEMA})
    assert 200 == created.status
    location = created.json["metadata"]["location"]
    assert str(uuid.UUID(location.rpartition("/")[2])) == location.rpartition("/")[2]
    assert location == client.send("GET", f"{tables}/{quote(name, safe='')}").json["metadata"]["location"]
    assert [{"namespace": [namespace], "name": name}] == client.send("GET", tables).json["identifiers"]


def poisoned(ground: Ground, field: str, *, inside: bool = False) -> Json:
    """The metadata of another table, with one field that points to an invalid or valid location."""
    location = f"{ground.base}/imported-{uuid.uuid4().hex}"
    outside = f"{location}/there" if inside else "file:///etc/passwd"
    document: Json = {**ground.table, "table-uuid": str(uuid.uuid4()), "location": location}
    with_snapshot = {"snapshots": [snapshot(f"{location}/metadata/1.avro")], "current-snapshot-id": 1, "last-sequence-number": 1}
    poisons: dict[str, Json] = {
        "location": {"location": outside},
        "manifest-list": {**with_snapshot, "snapshots": [snapshot(outside)]},
        "statistics": {**with_snapshot, "statistics": [statistics(outside)]},
        "partition-statistics": {**with_snapshot, "partition-statistics": [partition_statistics(outside)]},
        "metadata-log": {"metadata-log": [{"timestamp-ms": ground.table["last-updated-ms"], "metadata-file": outside}]},
        "write.data.path": {"properties": {"write.data.path": outside}},
        "write.metadata.path": {"properties": {"write.metadata.path": outside}},
        "write.object-storage.path": {"properties": {"write.object-storage.path": outside}},
    }
    return {**document, **poisons[field]}


def register(ground: Ground, metadata_location: str, name: str = "imported") -> Answered:
    return ground.client.send(
        "POST", f"{PREFIX}/namespaces/{ground.namespace}/register", {"name": name, "metadata-location": metadata_location}
    )


@pytest.mark.parametrize(
    "field",
    [
        "location",
        "manifest-list",
        "statistics",
        "partition-statistics",
        "metadata-log",
        "write.data.path",
        "write.metadata.path",
        "write.object-storage.path",
    ],
)
def test_a3_a_registered_file_may_not_point_elsewhere(ground: Ground, field: str) -> None:
    """A3: one invalid field refuses the whole file. With a valid location it is accepted."""
    answered = register(ground, ground.write_metadata(poisoned(ground, field)))
    assert (400, "BadRequestException") == (answered.status, answered.error_type)
    taken = register(ground, ground.write_metadata(poisoned(ground, field, inside=True)))
    assert 200 == taken.status, taken.body


def test_a4_anothers_metadata_cannot_be_registered(ground: Ground) -> None:
    """A4: the location is claimed by the existing table."""
    loaded = ground.client.send("GET", f"{ground.tables}/orders").json
    answered = register(ground, loaded["metadata-location"])
    assert (400, "BadRequestException") == (answered.status, answered.error_type)
    assert 404 == ground.client.send("GET", f"{ground.tables}/imported").status


@pytest.mark.parametrize(
    ("content", "suffix"),
    [
        (b"", ".metadata.json"),
        (b"root:x:0:0", ".metadata.json"),
        (b"{}", ".metadata.json"),
        (b"[]", ".metadata.json"),
        (b'{"format-version": 99}', ".metadata.json"),
        (b'{"format-version": NaN}', ".metadata.json"),
        (b'{"format-version": 2, "location": "\\u0000"}', ".metadata.json"),
        (b"[" * 100_000, ".metadata.json"),
        (b"not gzip", ".gz.metadata.json"),
        (gzip.compress(b"not json"), ".gz.metadata.json"),
        (gzip.compress(b" " * 300_000_000, compresslevel=9), ".gz.metadata.json"),
    ],
    ids=["empty", "no json", "no fields", "a list", "a future format", "nan", "nul", "deep", "no gzip", "gzip of no json", "gzip bomb"],
)
def test_a4_a_file_that_is_no_metadata_is_refused(ground: Ground, content: bytes, suffix: str) -> None:
    """A4: with a 4xx in limited time and memory, whatever the file contains."""
    started = time.monotonic()
    answered = register(ground, ground.write_metadata(content, suffix=suffix))
    assert 400 <= answered.status < 500
    assert answered.error_type
    assert b"root:x" not in answered.body
    assert time.monotonic() - started < 10


def test_a4_a_file_that_is_not_there(ground: Ground) -> None:
    """A4: 404, as the compatibility kit expects."""
    answered = register(ground, f"{ground.base}/nowhere/metadata/00000-x.metadata.json")
    assert (404, "NotFoundException") == (answered.status, answered.error_type)


def deep(levels: int) -> bytes:
    return b'{"namespace": ' + b"[" * levels + b"]" * levels + b"}"


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize(
    ("path", "body", "status", "limit"),
    [
        ("namespaces", b'{"namespace": ["a"], "x": "' + b"a" * (33 << 20) + b'"}', 413, "longer than 33554432 bytes"),
        ("namespaces", deep(200_000), 400, "not JSON: depth limit exceeded"),
        ("namespaces", deep(129), 400, "nested deeper than 128 levels"),
        ("namespaces", b'{"a":' * 100_000 + b"1" + b"}" * 100_000, 400, "not JSON: depth limit exceeded"),
        ("namespaces", b'{"namespace": ["a"], "x": [' + b"[]," * 2_000_000 + b"1]}", 400, "more than 1000000 values"),
        (
            "namespaces",
            json.dumps({"namespace": ["a"], "properties": {str(n): "" for n in range(10_001)}}).encode(),
            400,
            "more than 10000 properties",
        ),
        ("namespaces", json.dumps({"namespace": ["a"], "properties": {"k" * 1_025: ""}}).encode(), 400, "a key longer than 1024 bytes"),
        (
            "namespaces",
            json.dumps({"namespace": ["a"], "properties": {"k": "v" * ((1 << 20) + 1)}}).encode(),
            400,
            "a value longer than 1048576 bytes",
        ),
        ("namespaces", json.dumps({"namespace": ["a"] * 17}).encode(), 400, "more than 16 elements"),
        ("namespaces/{ns}/tables/orders", json.dumps({"updates": [{"action": "x"}] * 20_001}).encode(), 400, "more than 20000 elements"),
        (
            "namespaces/{ns}/tables/orders",
            json.dumps({"requirements": [{"type": "x"}] * 1_001, "updates": []}).encode(),
            400,
            "more than 1000 elements",
        ),
        ("transactions/commit", json.dumps({"table-changes": [{}] * 1_001}).encode(), 400, "more than 1000 elements"),
        (
            "namespaces/{ns}/tables/orders/metrics",
            b'{"report-type": "scan-report", "x": "' + b"a" * 300_000 + b'"}',
            413,
            "may have at most 262144 bytes",
        ),
    ],
    ids=[
        "32 MiB",
        "200,000 arrays",
        "129 arrays",
        "100,000 objects",
        "2,000,000 values",
        "properties",
        "a key",
        "a value",
        "levels",
        "updates",
        "requirements",
        "table changes",
        "a report",
    ],
)
def test_a11_too_much_of_anything_is_refused(ground: Ground, path: str, body: bytes, status: int, limit: str) -> None:
    """A11: quickly, before it is parsed. The message names the limit."""
    started = time.monotonic()
    answered = ground.client.send("POST", f"{PREFIX}/{path.format(ns=ground.namespace)}", body)
    assert status == answered.status
    assert answered.error_type
    assert limit in answered.json["error"]["message"]
    assert time.monotonic() - started < 5


def test_a11_a_compressed_body_is_refused(client: Client) -> None:
    """A11: nothing is decompressed."""
    body = gzip.compress(b'{"namespace": ["' + b"a" * 50_000_000 + b'"]}')
    answered = client.send("POST", f"{PREFIX}/namespaces", body, {"Content-Encoding": "gzip"})
    assert (415, "UnsupportedMediaTypeException") == (answered.status, answered.error_type)


def test_a12_the_separator_keeps_levels_apart(client: Client) -> None:
    """A12: `a%1Fb`, `a.b` and `a%2Fb` are three namespaces. `parent` lists the correct children."""
    top = client.create_namespace()
    for levels in ([top, "b"], [f"{top}.b"], [f"{top}/b"], [top, "b c+d&e"], [top, "b c+d&e", "x"]):
        assert levels == client.send("POST", f"{PREFIX}/namespaces", {"namespace": levels}).json["namespace"]
    for address, levels in (
        (f"{top}%1Fb", [top, "b"]),
        (f"{top}%1fb", [top, "b"]),
        (f"{top}.b", [f"{top}.b"]),
        (f"{top}%2Eb", [f"{top}.b"]),
        (f"{top}%2Fb", [f"{top}/b"]),
        (f"{top}%1Fb+c%2Bd%26e", [top, "b c+d&e"]),
        (f"{top}%1Fb%20c%2Bd%26e", [top, "b c+d&e"]),
    ):
        assert levels == client.send("GET", f"{PREFIX}/namespaces/{address}").json["namespace"]
    for parent in (
        f"{top}%1Fb+c%2Bd%26e",
        f"{top}%1Fb%20c%2Bd%26e",
        f"{top}%1Fb%2520c%252Bd%2526e",
        f"{top}%251Fb%2520c%252Bd%2526e",
    ):
        found = client.send("GET", f"{PREFIX}/namespaces?parent={parent}").json["namespaces"]
        assert [[top, "b c+d&e", "x"]] == found


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize(
    ("status", "address"),
    [
        *((404, address) for address in ("a%1F", "%1Fa", "a%1F%1Fb", "%1F", "a%1Fb%00", "%0A")),
        *((400, address) for address in ("a%", "%GG", "%FF", "%C0%AF", "%ED%A0%80")),
    ],
)
def test_a12_levels_that_cannot_be_are_refused(client: Client, status: int, address: str) -> None:
    """A12: empty levels, control characters and invalid UTF-8, in every kind of request."""
    for method, path, kind in (
        ("GET", f"namespaces/{address}", "Namespace"),
        ("DELETE", f"namespaces/{address}", "Namespace"),
        ("GET", f"namespaces/{address}/tables", "Namespace"),
        ("GET", f"namespaces/{address}/tables/t", "Table"),
        ("GET", f"namespaces/x/tables/{address}", "Table"),
        ("DELETE", f"namespaces/x/tables/{address}", "Table"),
        ("GET", f"namespaces/x/views/{address}", "View"),
    ):
        answered = client.send(method, f"{PREFIX}/{path}")
        assert (status, "BadRequestException" if status == 400 else f"NoSuch{kind}Exception") == (answered.status, answered.error_type), (
            path
        )


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize(
    "name",
    ["", "e\u0301", "A\u030a", "a\u202eb", "a\u200db", "a\ufeff", "\ue000", "x" * 256, "a\u0007", "a\u0085b", "\U000e0041"],
    ids=["empty", "NFD", "NFD ring", "bidi", "ZWJ", "BOM", "private", "256 code points", "bell", "next line", "tag"],
)
def test_a13_names_that_deceive_cannot_be_made(ground: Ground, name: str) -> None:
    """A13: as namespace, table, view and new name. The message names the rule."""
    table = {"namespace": [ground.namespace], "name": "orders"}
    for path, body in (
        ("namespaces", {"namespace": [name]}),
        ("namespaces", {"namespace": [ground.namespace, name]}),
        (f"namespaces/{ground.namespace}/tables", {"name": name, "schema": SCHEMA}),
        (f"namespaces/{ground.namespace}/tables", {"name": name, "schema": SCHEMA, "stage-create": True}),
        (f"namespaces/{ground.namespace}/views", {**view(f"{ground.base}/v"), "name": name}),
        (f"namespaces/{ground.namespace}/register", {"name": name, "metadata-location": f"{ground.base}/x"}),
        ("tables/rename", {"source": table, "destination": {"namespace": [ground.namespace], "name": name}}),
        ("tables/rename", {"source": table, "destination": {"namespace": [name], "name": "t"}}),
    ):
        answered = ground.client.send("POST", f"{PREFIX}/{path}", body)
        assert (400, "BadRequestException") == (answered.status, answered.error_type), path
        assert re.search("Invalid (table name|view name|namespace level): ", answered.json["error"]["message"]), path


def test_a13_spellings_of_one_name_are_one_name(client: Client) -> None:
    """A13: case-insensitive, in NFC: `Straße`, `STRASSE` and an NFD spelling are equal. The listing has the first spelling, responses the
    caller's.
    """
    name = f"Stra\u00dfe_\u00e9_{uuid.uuid4().hex}"
    assert 200 == client.send("POST", f"{PREFIX}/namespaces", {"namespace": [name]}).status
    for other in (name.upper(), name.casefold(), name.replace("\u00df", "ss")):
        assert 409 == client.send("POST", f"{PREFIX}/namespaces", {"namespace": [other]}).status
    for other in (name.upper(), name.replace("\u00e9", "e\u0301")):
        assert [other] == client.send("GET", f"{PREFIX}/namespaces/{quote(other)}").json["namespace"]
    assert [name] in client.send("GET", f"{PREFIX}/namespaces").json["namespaces"]


def test_a13_a_transaction_finds_a_table_by_each_spelling(client: Client) -> None:
    """As a commit to the table alone does. What is not there is 404, also by a name that no table can have."""
    namespace = f"n{uuid.uuid4().hex}"
    assert 200 == client.send("POST", f"{PREFIX}/namespaces", {"namespace": [namespace]}).status
    assert 200 == client.send("POST", f"{PREFIX}/namespaces/{namespace}/tables", {"name": "caf\u00e9", "schema": SCHEMA}).status
    for name, expected in (("caf\u00e9", 204), ("CAFE\u0301", 204), ("x\u0301", 404), ("a%b", 404)):
        change = {"identifier": {"namespace": [namespace], "name": name}, "requirements": [], "updates": []}
        assert expected == client.send("POST", f"{PREFIX}/transactions/commit", {"table-changes": [change]}).status, name
        change["requirements"] = [{"type": "assert-create"}]
        new = client.send("POST", f"{PREFIX}/transactions/commit", {"table-changes": [change]})
        assert 400 <= new.status < 500, name


@pytest.mark.parametrize("address", ["s1%1Ft/tables/snapshots", "s1/tables/branch_b1", "s1%1Ft/views/x", "x" * 300 + "/tables/t"])
def test_a13_engines_may_probe_for_what_is_not_there(client: Client, address: str) -> None:
    """Spark loads `db.table` as a namespace before it reads a metadata table: 404, not 400."""
    answered = client.send("GET", f"{PREFIX}/namespaces/{address}")
    assert 404 == answered.status
    assert answered.error_type in ("NoSuchTableException", "NoSuchViewException", "NoSuchNamespaceException")
    if "/tables/" in address:
        assert 404 == client.send("HEAD", f"{PREFIX}/namespaces/{address}").status


CHOKING = [
    b'"\\u0000"',
    b'"a\\u0000b"',
    b'"\\ud800"',
    b'"\\udfff\\ud800"',
    b'"\xff"',
    b'"\xed\xa0\x80"',
    b"NaN",
    b"Infinity",
    b"1e999",
    b'"\x00"',
]


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize("value", CHOKING, ids=[value.decode("latin-1").encode("unicode_escape").decode() for value in CHOKING])
def test_a17_text_the_database_would_choke_on(ground: Ground, value: bytes) -> None:
    """A17: in names, in properties, in schemas, and in fields that are not read."""
    namespace = ground.namespace.encode()
    schema = json.dumps(SCHEMA).encode()
    for path, body in (
        ("namespaces", b'{"namespace": [' + value + b"]}"),
        ("namespaces", b'{"namespace": ["x"], "properties": {"a": ' + value + b"}}"),
        ("namespaces", b'{"namespace": ["x"], "unknown": [{"a": ' + value + b"}]}"),
        (f"namespaces/{ground.namespace}/properties", b'{"removals": [' + value + b"]}"),
        (f"namespaces/{ground.namespace}/tables", b'{"name": ' + value + b', "schema": ' + schema + b"}"),
        (
            f"namespaces/{ground.namespace}/tables",
            b'{"name": "t", "schema": {"type": "struct", "fields": [{"id": 1, "name": "a", "type": "int", "required": false, "doc": '
            + value
            + b"}]}}",
        ),
        (f"namespaces/{ground.namespace}/tables/orders", b'{"updates": [{"action": "set-properties", "updates": {"a": ' + value + b"}}]}"),
        (f"namespaces/{ground.namespace}/tables/orders", b'{"requirements": [{"type": "assert-table-uuid", "uuid": ' + value + b"}]}"),
        ("tables/rename", b'{"source": {"namespace": [' + value + b'], "name": "a"}, "destination": {"namespace": ["a"], "name": "b"}}'),
        ("transactions/commit", b'{"table-changes": [{"identifier": {"namespace": ["' + namespace + b'"], "name": ' + value + b"}}]}"),
        (f"namespaces/{ground.namespace}/tables/orders/metrics", b'{"report-type": "scan-report", "filter": ' + value + b"}"),
    ):
        answered = ground.client.send("POST", f"{PREFIX}/{path}", body)
        assert (400, "BadRequestException") == (answered.status, answered.error_type), (path, body)
        assert answered.json["error"]["message"].startswith("Invalid body: "), path


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize(
    "query",
    [
        "pageToken=%00",
        "pageToken=x",
        "pageToken=&pageSize=0",
        "pageToken=&pageSize=-1",
        "pageToken=&pageSize=x",
        "parent=%00",
        "parent=%FF",
    ],
)
def test_a17_queries_the_database_would_choke_on(client: Client, query: str) -> None:
    """A17: the same in parameters."""
    answered = client.send("GET", f"{PREFIX}/namespaces?{query}")
    assert (400, "BadRequestException") == (answered.status, answered.error_type)


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize(
    "key",
    [
        "",
        "x",
        "1",
        "{" + str(uuid.UUID(int=7)) + "}",
        uuid.UUID(int=7).hex,
        "{{" + uuid.UUID(int=7).hex + "}}",
        str(uuid.UUID(int=7)) + "0",
    ],
)
def test_a_malformed_idempotency_key_is_refused_on_every_mutation(ground: Ground, key: str) -> None:
    """It is not ignored, because the client relies on it."""
    orders = f"namespaces/{ground.namespace}/tables/orders"
    identifier = {"namespace": [ground.namespace], "name": "orders"}
    for method, path, body in (
        ("POST", "namespaces", {"namespace": ["x"]}),
        ("DELETE", f"namespaces/{ground.namespace}", None),
        ("POST", f"namespaces/{ground.namespace}/properties", {"updates": {"a": "b"}}),
        ("POST", f"namespaces/{ground.namespace}/tables", {"name": "t", "schema": SCHEMA}),
        ("POST", f"namespaces/{ground.namespace}/register", {"name": "t", "metadata-location": f"{ground.base}/x"}),
        ("POST", orders, {"updates": []}),
        ("DELETE", orders, None),
        ("POST", f"{orders}/unregister", None),
        ("POST", "tables/rename", {"source": identifier, "destination": {**identifier, "name": "t"}}),
        ("POST", "transactions/commit", {"table-changes": [{"identifier": identifier, "updates": []}]}),
        ("POST", f"namespaces/{ground.namespace}/views", view(f"{ground.base}/v")),
        ("DELETE", f"namespaces/{ground.namespace}/views/v", None),
    ):
        answered = ground.client.send(method, f"{PREFIX}/{path}", body, {"Idempotency-Key": key})
        assert (400, "BadRequestException") == (answered.status, answered.error_type), path
        assert "Idempotency-Key" in answered.json["error"]["message"]


def test_clients_as_they_are(ground: Ground) -> None:
    """`Authorization: Bearer None`, explicit nulls, Python's booleans, an empty page token."""
    client, headers = ground.client, {"Authorization": "Bearer None", "X-Iceberg-Access-Delegation": "vended-credentials"}
    body = {"name": "t", "schema": SCHEMA, "location": None, "partition-spec": None, "write-order": None, "properties": None}
    created = client.send("POST", ground.tables, body, headers)
    assert 200 == created.status
    assert created.headers["icecore-position"].isdigit()
    first = client.send("GET", f"{ground.tables}?pageToken=&pageSize=1", headers=headers).json
    assert ["orders"] == [identifier["name"] for identifier in first["identifiers"]]
    second = client.send("GET", f"{ground.tables}?pageToken={first['next-page-token']}&pageSize=1", headers=headers).json
    assert ["t"] == [identifier["name"] for identifier in second["identifiers"]]
    assert second["next-page-token"] is None
    elsewhere = f"{PREFIX}/namespaces/{ground.namespace}/views?pageToken={first['next-page-token']}"
    assert 400 == client.send("GET", elsewhere, headers=headers).status
    assert 204 == client.send("DELETE", f"{ground.tables}/t?purgeRequested=False", headers=headers).status
    assert 404 == client.send("HEAD", f"{ground.tables}/t", headers=headers).status


def test_an_unchanged_table_is_304(ground: Ground) -> None:
    """The header is spelled `ETag`, because Java looks it up case-sensitively. Another ETag, or other snapshots, is a full response."""
    loaded = ground.client.send("GET", f"{ground.tables}/orders")
    etag = loaded.headers["etag"]
    again = ground.client.send("GET", f"{ground.tables}/orders", headers={"If-None-Match": etag})
    for spelled in (etag.removeprefix("W/"), f'"another", {etag}', "*"):
        assert 304 == ground.client.send("GET", f"{ground.tables}/orders", headers={"If-None-Match": spelled}).status
    assert (304, b"", etag) == (again.status, again.body, again.headers["etag"])
    assert 200 == ground.client.send("GET", f"{ground.tables}/orders", headers={"If-None-Match": '"another"'}).status
    assert 200 == ground.client.send("GET", f"{ground.tables}/orders?snapshots=refs", headers={"If-None-Match": etag}).status
    assert 400 == ground.client.send("GET", f"{ground.tables}/orders?snapshots=some").status


def test_config_names_a_warehouse_and_what_is_served(client: Client) -> None:
    """The prefix is the warehouse's id. An unknown warehouse is 404 with its own type."""
    config = client.send("GET", "/catalog/v1/config?warehouse=demo").json
    expected = {
        "defaults": {"prefix": config["overrides"]["prefix"], "rest-catalog-purge": "true"},
        "idempotency-key-lifetime": "PT24H",
    }
    assert expected == {key: config[key] for key in ("defaults", "idempotency-key-lifetime")}
    assert str(uuid.UUID(config["overrides"]["prefix"])) == config["overrides"]["prefix"]
    assert "POST /v1/{prefix}/transactions/commit" in config["endpoints"]
    assert config == client.send("GET", "/v1/config?warehouse=demo").json
    prefix = config["overrides"]["prefix"]
    assert config == client.send("GET", f"/catalog/v1/config?warehouse={prefix.upper()}").json
    bare = prefix.replace("-", "")
    for spelled in (bare, "{" + prefix + "}", f"urn:uuid:{prefix}", "-" * 1000 + prefix, "{{" + bare + "}}"):
        assert 404 == client.send("GET", f"/catalog/v1/config?warehouse={spelled}").status
    unknown = client.send("GET", "/catalog/v1/config?warehouse=nowhere")
    assert (404, "NoSuchWarehouseException") == (unknown.status, unknown.error_type)


def test_config_of_a_past_is_pinned(client: Client) -> None:
    """By position, and by a time whose plus became a space. A future time is refused."""
    position = client.position()
    pinned = client.send("GET", f"/catalog/v1/config?warehouse=demo@{position}").json["overrides"]["prefix"]
    assert str(position) == pinned.partition("@")[2]
    now = datetime.now(UTC).replace(tzinfo=None)
    for zone in ("Z", "+00:00", "%2B00:00"):
        assert 200 == client.send("GET", f"/catalog/v1/config?warehouse=demo@{now.isoformat()}{zone}").status
        later = (now + timedelta(minutes=1)).isoformat()
        assert 400 == client.send("GET", f"/catalog/v1/config?warehouse=demo@{later}{zone}").status
    refused = client.send("POST", f"/catalog/v1/{pinned}/namespaces", {"namespace": ["x"]})
    assert (406, "UnsupportedOperationException") == (refused.status, refused.error_type)


def test_an_address_or_a_method_that_is_not_served(client: Client) -> None:
    """404 and 405, as Iceberg errors."""
    missing = client.send("GET", "/catalog/v1/demo/nothing")
    assert (404, "NotFoundException") == (missing.status, missing.error_type)
    wrong = client.send("PUT", f"{PREFIX}/namespaces", b"{}")
    assert (405, "MethodNotAllowedException", "GET, POST") == (wrong.status, wrong.error_type, wrong.headers["allow"])


@pytest.mark.parametrize(
    ("address", "unknown", "known"),
    [
        ("/history/v1/events", "since", "after"),
        ("/history/v1/events", "table", "namespaces"),
        (f"/history/v1/events/{uuid.UUID(int=7)}", "after", "dialect"),
        ("/history/v1/wait", "positon", "position"),
        ("/management/v1/proposals", "state", "status"),
        (f"/management/v1/proposals/{uuid.UUID(int=7)}", "status", "has no parameters"),
        ("/management/v1/events/schemas", "type", "has no parameters"),
        ("/management/v1/events/schemas/x", "type", "has no parameters"),
        ("/management/v1/project-list", "page", "has no parameters"),
        (f"/management/v1/warehouse/{uuid.UUID(int=7)}", "warehouseStatus", "has no parameters"),
    ],
)
def test_unknown_and_repeated_parameters_of_our_own_addresses_are_refused(client: Client, address: str, unknown: str, known: str) -> None:
    """A misspelled filter must not return everything. The message names it, and the valid ones."""
    answered = client.send("GET", f"{address}?{unknown}=1")
    assert (400, "BadRequestException") == (answered.status, answered.error_type)
    assert f"'{unknown}'" in answered.json["error"]["message"]
    assert known in answered.json["error"]["message"]
    if "no parameters" not in known:
        repeated = client.send("GET", f"{address}?{known}=1&{known}=2")
        assert (400, "BadRequestException") == (repeated.status, repeated.error_type)
        assert f"'{known}'" in repeated.json["error"]["message"]
    assert 400 == client.send("GET", f"{address}?x=%FF").status


@pytest.mark.parametrize("decision", ["approve", "reject"])
def test_decisions_on_proposals_take_no_parameters(client: Client, decision: str) -> None:
    """Refused before the proposal is read."""
    address = f"/management/v1/proposals/{uuid.UUID(int=7)}/{decision}"
    assert 404 == client.send("POST", address).status
    answered = client.send("POST", f"{address}?force=true")
    assert (400, "BadRequestException") == (answered.status, answered.error_type)
    assert "'force'" in answered.json["error"]["message"]


def test_parameters_have_a_bound_in_number_and_are_shown_in_part(client: Client) -> None:
    for address in ("/history/v1/events", f"{PREFIX}/namespaces"):
        assert 400 == client.send("GET", f"{address}?{'&'.join(f'a{number}=1' for number in range(101))}").status
    shown = client.send("GET", f"/history/v1/events?{'x' * 1_000}=1").json["error"]["message"]
    assert "x" * 64 in shown
    assert "x" * 65 not in shown


def test_unknown_parameters_of_iceberg_s_addresses_are_ignored(client: Client) -> None:
    """Clients may send parameters of newer versions."""
    assert 200 == client.send("GET", f"{PREFIX}/namespaces?unknown=1").status

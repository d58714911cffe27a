"""A plain client of any Iceberg REST catalog, for preparing a measurement and checking it afterwards."""

import http.client
from typing import Any
from urllib.parse import quote, urlsplit

import orjson

from benchmarks import work

Json = dict[str, Any]

ANSWER_SECONDS_MAX = 300.0


class RefusedError(Exception):
    """The server answered with an error; the message contains status and body."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status}: {text[:500]}")
        self.status = status


class RestCatalog:
    """One catalog by its base URL (the `uri` of Iceberg clients)."""

    def __init__(self, uri: str, warehouse: str | None = None, token: str | None = None) -> None:
        parts = urlsplit(uri.rstrip("/"))
        assert parts.scheme == "http", "the benchmarks speak plain HTTP"
        assert parts.hostname is not None
        self.uri = uri
        self.address = (parts.hostname, parts.port or 80)
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._base = f"{parts.path}/v1"
        self._connection = http.client.HTTPConnection(*self.address, timeout=ANSWER_SECONDS_MAX)
        question = f"?warehouse={quote(warehouse)}" if warehouse else ""
        config = self.call("GET", f"{self._base}/config{question}")
        prefix = config.get("overrides", {}).get("prefix") or config.get("defaults", {}).get("prefix")
        self.prefix = f"{self._base}/{prefix}" if prefix else self._base

    def close(self) -> None:
        self._connection.close()

    def call(self, method: str, path: str, body: bytes | None = None) -> Json:
        headers = {**self.headers, **({"Content-Type": "application/json"} if body is not None else {})}
        try:
            self._connection.request(method, path, body, headers)
            response = self._connection.getresponse()
        except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
            # A kept connection that the server has closed meanwhile.
            self._connection.close()
            self._connection.request(method, path, body, headers)
            response = self._connection.getresponse()
        data = response.read()
        if response.status >= 400:
            raise RefusedError(response.status, data.decode(errors="replace"))
        parsed: Json = orjson.loads(data) if data else {}
        return parsed

    def create_namespace(self, name: str) -> None:
        try:
            self.call("POST", f"{self.prefix}/namespaces", orjson.dumps({"namespace": [name], "properties": {}}))
        except RefusedError as refusal:
            if refusal.status != 409:
                raise

    def table_path(self, namespace: str, name: str) -> str:
        return f"{self.prefix}/namespaces/{namespace}/tables/{name}"

    def create_table(self, namespace: str, name: str, properties: dict[str, str] | None = None) -> Json:
        """Creates a table and returns its metadata."""
        response = self.call("POST", f"{self.prefix}/namespaces/{namespace}/tables", work.create_body(name, properties))
        metadata: Json = response["metadata"]
        return metadata

    def load(self, namespace: str, name: str) -> Json:
        return self.call("GET", self.table_path(namespace, name))

    def commit(self, namespace: str, name: str, body: bytes) -> Json:
        return self.call("POST", self.table_path(namespace, name), body)

    def register(self, namespace: str, name: str, metadata_location: str) -> None:
        body = orjson.dumps({"name": name, "metadata-location": metadata_location})
        self.call("POST", f"{self.prefix}/namespaces/{namespace}/register", body)

    def list_page(self, namespace: str, size: int, token: str = "") -> tuple[list[str], str | None]:
        """The names of one page, and the next page's token."""
        response = self.call("GET", f"{self.list_path(namespace, size, token)}")
        return [each["name"] for each in response["identifiers"]], response.get("next-page-token")

    def list_path(self, namespace: str, size: int, token: str = "") -> str:
        return f"{self.prefix}/namespaces/{namespace}/tables?pageSize={size}&pageToken={quote(token)}"

    def add_snapshots(self, namespace: str, name: str, count: int, *, per_commit: int = 1_000) -> list[int]:
        """Adds that many snapshots to a table, many per commit. Returns their ids in order."""
        metadata = self.load(namespace, name)["metadata"]
        location, last, parent = metadata["location"], metadata["last-sequence-number"], metadata.get("current-snapshot-id")
        added: list[int] = []
        while len(added) < count:
            body, ids = work.many_snapshots_body(location, last, parent if parent != -1 else None, min(per_commit, count - len(added)))
            self.commit(namespace, name, body)
            added += ids
            last, parent = last + len(ids), ids[-1]
        return added

"""Random requests to the HTTP API and a simple model: after every step fold(log) = read models = model, including refusals.

ICECORE_TEST_MACHINE_EXAMPLES sets the number of runs with up to STEPS commands. `--hypothesis-show-statistics` shows what they covered.
"""

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar
from urllib.parse import quote
from uuid import UUID, uuid4

import pytest
from hypothesis import HealthCheck, Phase, currently_in_test_context, event, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule, run_state_machine_as_test

from icecore.access.resolve_warehouse import resolve_warehouse
from icecore.commands.execution.clock import now_ms
from icecore.commands.tables.drop_table import drop_table
from icecore.domain import namespace, table
from icecore.domain.claims import NameClaim
from icecore.domain.commands import DropTable
from icecore.domain.identifiers import NamespaceIdentifier, TabularIdentifier
from icecore.projections.verify import verify
from tests.fixtures.catalog import PROJECT_ID, context
from tests.fixtures.clocks import clocks_behind
from tests.fixtures.rest_client import (
    SCHEMA,
    RestClient,
    RestResponse,
    identifier,
    namespace_path,
    set_properties,
    table_path,
    view_path,
    view_version,
)
from tests.fixtures.shared_server import FreshWarehouse, SharedCatalog, shared
from tests.property.catalog_model import (
    CREATED_PROPERTIES,
    SPELLINGS,
    VIEW_VERSIONS_KEPT,
    CatalogModel,
    Change,
    Content,
    File,
    Namespace,
    Path,
    Refused,
    Tabular,
)

EXAMPLES_DEFAULT = 10
EXAMPLES = int(os.environ.get("ICECORE_TEST_MACHINE_EXAMPLES", EXAMPLES_DEFAULT))
STEPS = 30
# Requests that succeed at the beginning of every run.
BEGUN_WITH = 5

Levels = list[str]
NAMES = st.sampled_from(list(SPELLINGS))
LEVELS = st.one_of(st.just(["t"]), st.lists(NAMES, min_size=1, max_size=1), st.lists(NAMES, min_size=2, max_size=2))
PROPERTIES = st.dictionaries(st.sampled_from(["k", "l"]), st.sampled_from(["1", "ß"]), max_size=2)
PLACES = st.sampled_from([None, None, None, "x", "x/y", "z", "xy", "n", "n/t"])
NAMESPACE_PLACES = st.sampled_from([None, None, None, "n", "n/t/m", "x", "x/y"])
KEYED = st.booleans()


class CatalogMachine(RuleBasedStateMachine):
    """One warehouse of the session's server, and its model."""

    catalog: ClassVar[SharedCatalog]
    outcomes: ClassVar[Counter[str]]
    verifies: ClassVar[bool] = True

    warehouse: FreshWarehouse
    client: RestClient
    model: CatalogModel

    @initialize(exact_names=st.sampled_from([False, False, True]))
    def open(self, exact_names: bool) -> None:
        self.warehouse = self.catalog.new_warehouse(exact_names=exact_names)
        self.client = self.catalog.client(self.warehouse)
        self.model = CatalogModel(exact_names=exact_names)
        self.keyed: list[tuple[str, str, Any, str, RestResponse]] = []
        self.pasts: dict[int, dict[str, Any]] = {}
        self.numbers = 0
        self.position = 0
        profile = {"delete-profile": {"type": "soft", "expiration-seconds": 86_400}}
        assert 200 == self.manage("POST", "/delete-profile", profile).status
        for levels in (["t"], ["a b"]):
            opening = partial(self.model.create_namespace, levels, {})
            self.learned_namespace(*self.ask("createNamespace", "POST", "/namespaces", {"namespace": levels}, opening))
        for kind, levels, name in (("table", ["t"], "t"), ("table", ["a b"], "a.b"), ("view", ["t"], "i")):
            content = Content(properties=CREATED_PROPERTIES) if kind == "table" else Content(queries=("select 0",))
            body = {"name": name, "schema": SCHEMA, "properties": {}, "view-version": view_version("select 0")}
            act = partial(self.model.create, kind, levels, name, content)
            self.learned(*self.ask(f"create {kind}", "POST", f"{namespace_path(levels)}/{kind}s", body, act))

    def teardown(self) -> None:
        if hasattr(self, "client"):
            self.client.close()

    # One request, compared with the model

    def ask(
        self, operation: str, method: str, path: str, body: Any, act: Callable[[], Any], *, keyed: bool = False, success: int = 200
    ) -> tuple[RestResponse, Any]:
        """Sends the request. Status and error type must be the model's. Returns the answer and the result of `act`."""
        given, refusal = None, None
        try:
            given = act()
        except Refused as refused:
            refusal = refused.answer
        key = str(uuid4()) if keyed else None
        answer = self.client.call(method, path, body, key=key)
        self.count(f"{operation} {answer.status if refusal is None else refusal[1]}")
        if refusal is not None:
            assert answer.status >= 400, f"{operation} must be refused with {refusal} and was answered {answer.body!r}"
            assert refusal == answer.error, answer.message
        else:
            assert success == answer.status, answer.body
            self.position = max(self.position, answer.position)
        if key is not None:
            self.keyed.append((method, path, body, key, answer))
        return answer, given

    def manage(self, method: str, path: str, body: Any = None) -> RestResponse:
        """A request to the management API about the warehouse."""
        root, self.client._root = self.client._root, ""
        try:
            return self.client.call_root(method, f"/management/v1/warehouse/{self.warehouse.id}{path}", body)
        finally:
            self.client._root = root

    def count(self, outcome: str) -> None:
        self.outcomes[outcome] += 1
        if currently_in_test_context():
            event(outcome)

    def number(self) -> int:
        self.numbers += 1
        return self.numbers

    def place(self, place: str | None) -> str:
        return "" if place is None else f"{self.warehouse.base}/{place}"

    def learned(self, answer: RestResponse, tabular: Tabular | None) -> None:
        if tabular is not None:
            self.model.learn(tabular, answer.json["metadata-location"], answer.json["metadata"])

    def learned_namespace(self, answer: RestResponse, namespace: Namespace | None) -> None:
        if namespace is not None:
            self.model.learn_namespace(namespace, answer.json["properties"])

    def holds(self, *kinds: str) -> bool:
        return any(tabular.kind in kinds for tabular in self.model.tabulars.values())

    def pick(self, data: st.DataObject, kind: str) -> tuple[Levels, str]:
        """Mostly an existing name in some spelling; sometimes any name."""
        there = [slot for slot, tabular in self.model.tabulars.items() if tabular.kind == kind]
        if there and data.draw(st.integers(0, 7)) < 7:
            path, key = data.draw(st.sampled_from(there))
            return [data.draw(self.spelling(level)) for level in path], data.draw(self.spelling(key))
        return data.draw(LEVELS), data.draw(NAMES)

    def pick_namespace(self, data: st.DataObject) -> Levels:
        there = list(self.model.namespaces)
        if there and data.draw(st.integers(0, 7)) < 7:
            return [data.draw(self.spelling(level)) for level in data.draw(st.sampled_from(there))]
        return data.draw(LEVELS)

    def spelling(self, key: str) -> st.SearchStrategy[str]:
        return st.sampled_from([name for name in SPELLINGS if self.model.key(name) == key])

    # Namespaces

    @rule(data=st.data(), name=NAMES, below=st.booleans(), place=NAMESPACE_PLACES, properties=PROPERTIES, keyed=KEYED)
    def create_namespace(
        self, data: st.DataObject, name: str, below: bool, place: str | None, properties: dict[str, str], keyed: bool
    ) -> None:
        levels = [*(self.pick_namespace(data)[:2] if below else []), name]
        properties = properties if place is None else {**properties, "location": self.place(place)}
        body = {"namespace": levels, "properties": properties}
        act = lambda: self.model.create_namespace(levels, properties)  # noqa: E731
        answer, namespace = self.ask("createNamespace", "POST", "/namespaces", body, act, keyed=keyed)
        self.learned_namespace(answer, namespace)
        assert namespace is None or {"namespace": levels, "properties": namespace.properties} == answer.json
        if place is None and namespace is not None:
            UUID(namespace.location.removeprefix(f"{self.warehouse.base}/"))

    @rule(data=st.data(), keyed=KEYED)
    def drop_namespace(self, data: st.DataObject, keyed: bool) -> None:
        levels = self.pick_namespace(data)
        act = lambda: self.model.drop_namespace(levels)  # noqa: E731
        self.ask("dropNamespace", "DELETE", namespace_path(levels), None, act, keyed=keyed, success=204)

    @rule(data=st.data(), name=NAMES, below=st.booleans())
    def move_namespace(self, data: st.DataObject, name: str, below: bool) -> None:
        levels = self.pick_namespace(data)
        if self.model.path(levels) not in self.model.namespaces:
            # It has no id.
            return
        destination = [*(self.pick_namespace(data)[:2] if below else []), name]
        path, refusal = f"/namespace/{self.namespace_id(levels)}/move", None
        try:
            self.model.move_namespace(levels, destination)
        except Refused as refused:
            refusal = refused.answer
        answer = self.manage("POST", path, {"destination": destination})
        self.count(f"moveNamespace {answer.status if refusal is None else refusal[1]}")
        if refusal is not None:
            assert answer.status >= 400, f"a move of {levels} to {destination} must be refused with {refusal}"
            assert refusal == answer.error, answer.message
        else:
            assert 200 == answer.status, answer.body
            assert self.model_levels(self.model.path(destination)) == answer.json["namespace"]
            self.position = max(self.position, answer.position)

    def namespace_id(self, levels: Levels) -> str:
        parent = "%1F".join(quote(level, safe="") for level in levels[:-1])
        listed = self.client.call("GET", f"/namespaces?returnUuids=true{f'&parent={parent}' if parent else ''}").json
        ids = {self.model.key(found[-1]): each for found, each in zip(listed["namespaces"], listed["namespace-uuids"], strict=True)}
        return str(ids[self.model.key(levels[-1])])

    @rule(
        data=st.data(),
        removals=st.lists(st.sampled_from(["k", "k", "l", "l", "m", "location"]), max_size=2, unique=True),
        updates=PROPERTIES,
        location=st.sampled_from([None, None, None, "same", "x"]),
        keyed=KEYED,
    )
    def update_properties(
        self, data: st.DataObject, removals: list[str], updates: dict[str, str], location: str | None, keyed: bool
    ) -> None:
        levels = self.pick_namespace(data)
        there = self.model.namespaces.get(self.model.path(levels))
        if location is not None:
            same = location == "same" and there is not None
            updates = {**updates, "location": there.location if same and there is not None else self.place("elsewhere")}
        body = {"removals": removals, "updates": updates}
        path = f"{namespace_path(levels)}/properties"
        answer, expected = self.ask(
            "updateProperties", "POST", path, body, lambda: self.model.update_properties(levels, removals, updates), keyed=keyed
        )
        assert answer.status != 200 or expected == answer.json

    # Tables and views alike

    @rule(
        data=st.data(),
        name=NAMES,
        kind=st.sampled_from(["table", "view"]),
        place=PLACES,
        properties=PROPERTIES,
        staged=st.integers(0, 4),
        keyed=KEYED,
    )
    def create(
        self, data: st.DataObject, name: str, kind: str, place: str | None, properties: dict[str, str], staged: int, keyed: bool
    ) -> None:
        levels, location = self.pick_namespace(data), self.place(place)
        body: dict[str, Any] = {"name": name, "schema": SCHEMA, "location": location or None, "properties": properties}
        if kind == "table":
            stage = staged == 0
            content = Content(location=location, properties={**CREATED_PROPERTIES, **properties})
            body["stage-create"] = stage
        else:
            stage, sql = False, f"select {self.number()}"
            content = Content(location=location, properties=properties, queries=(sql,))
            body["view-version"] = view_version(sql)
        path = f"{namespace_path(levels)}/{kind}s"
        operation = f"create {'staged ' if stage else ''}{kind}"
        act = lambda: self.model.create(kind, levels, name, content, staged=stage)  # noqa: E731
        answer, tabular = self.ask(operation, "POST", path, body, act, keyed=keyed)
        self.learned(answer, tabular)
        if tabular is not None and not location:
            within = self.model.namespaces[self.model.path(levels)].location
            UUID(tabular.content.location.removeprefix(f"{within}/"))

    @rule(data=st.data(), name=NAMES, place=PLACES, keyed=KEYED)
    def create_by_commit(self, data: st.DataObject, name: str, place: str | None, keyed: bool) -> None:
        levels = self.pick_namespace(data)
        location = self.place(place) or f"{self.warehouse.base}/staged-{self.number()}"
        uuid = str(uuid4())
        updates = [
            {"action": "assign-uuid", "uuid": uuid},
            {"action": "add-schema", "schema": SCHEMA},
            {"action": "set-current-schema", "schema-id": -1},
            {"action": "add-spec", "spec": {"fields": []}},
            {"action": "set-default-spec", "spec-id": -1},
            {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
            {"action": "set-default-sort-order", "sort-order-id": -1},
            {"action": "set-location", "location": location},
        ]
        body = {"requirements": [{"type": "assert-create"}], "updates": updates}
        content = Content(uuid=uuid, location=location)
        act = lambda: self.model.create_by_commit(levels, name, content)  # noqa: E731
        self.learned(*self.ask("create by commit", "POST", table_path(levels, name), body, act, keyed=keyed))

    @precondition(lambda self: self.holds("table"))
    @rule(data=st.data(), right=st.sampled_from([True, True, True, False]), keyed=KEYED)
    def commit_table(self, data: st.DataObject, right: bool, keyed: bool) -> None:
        levels, name = self.pick(data, "table")
        updates, changes = self.updates(data, self.there(levels, name), moves=True)
        requirement = self.requirement(data, self.there(levels, name), right=right)
        body = {"requirements": [requirement], "updates": updates}
        act = lambda: self.model.commit("table", levels, name, changes, holds=right)  # noqa: E731
        self.learned(*self.ask("commit", "POST", table_path(levels, name), body, act, keyed=keyed))

    @precondition(lambda self: self.holds("view"))
    @rule(data=st.data(), right=st.sampled_from([True, True, True, False]), keyed=KEYED)
    def commit_view(self, data: st.DataObject, right: bool, keyed: bool) -> None:
        self.replace_view(*self.pick(data, "view"), right=right, keyed=keyed)

    def replace_view(self, levels: Levels, name: str, *, right: bool, keyed: bool) -> None:
        sql = f"select {self.number()}"
        changes: list[Change] = [
            lambda content: content.with_query(sql),
            lambda content: replace(content, properties={**content.properties, "k": sql}),
        ]
        updates = [
            {"action": "add-view-version", "view-version": view_version(sql, timestamp_ms=time.time_ns() // 1_000_000)},
            {"action": "set-current-view-version", "view-version-id": -1},
            set_properties(k=sql),
        ]
        there = self.model.tabulars.get((self.model.path(levels), self.model.key(name)))
        uuid = there.content.uuid if there is not None and right else str(uuid4())
        body = {"requirements": [{"type": "assert-view-uuid", "uuid": uuid}], "updates": updates}
        act = lambda: self.model.commit("view", levels, name, changes, holds=right)  # noqa: E731
        self.learned(*self.ask("replace view", "POST", view_path(levels, name), body, act, keyed=keyed))

    @precondition(lambda self: self.holds("table"))
    @rule(data=st.data(), count=st.integers(1, 3), right=st.sampled_from([True, True, False]), keyed=KEYED)
    def commit_transaction(self, data: st.DataObject, count: int, right: bool, keyed: bool) -> None:
        commits: list[tuple[Levels, str, list[Change], bool]] = []
        table_changes = []
        for turn in range(count):
            levels, name = self.pick(data, "table")
            updates, changes = self.updates(data, self.there(levels, name), moves=False)
            holds = right or turn < count - 1
            requirement = self.requirement(data, self.there(levels, name), right=holds)
            table_changes.append({"identifier": identifier(levels, name), "requirements": [requirement], "updates": updates})
            commits.append((levels, name, changes, holds))
        body = {"table-changes": table_changes}
        act = lambda: self.model.commit_together(commits)  # noqa: E731
        answer, _ = self.ask("transaction", "POST", "/transactions/commit", body, act, keyed=keyed, success=204)
        if answer.status == 204:
            for levels, name, _, _ in commits:
                tabular = self.model.find("table", levels, name)
                loaded = self.client.load_table(levels, name).json
                self.model.learn(tabular, loaded["metadata-location"], loaded["metadata"])

    @precondition(lambda self: self.holds("table", "view"))
    @rule(data=st.data(), kind=st.sampled_from(["table", "view"]), name=NAMES, other_case=st.booleans(), keyed=KEYED)
    def rename(self, data: st.DataObject, kind: str, name: str, other_case: bool, keyed: bool) -> None:
        source = self.pick(data, kind)
        destination = (self.pick_namespace(data), name)
        if other_case:
            destination = (source[0], data.draw(self.spelling(self.model.key(source[1]))))
        body = {"source": identifier(*source), "destination": identifier(*destination)}
        act = lambda: self.model.rename(kind, source, destination)  # noqa: E731
        self.ask(f"rename {kind}", "POST", f"/{kind}s/rename", body, act, keyed=keyed, success=204)

    @precondition(lambda self: self.holds("table", "view"))
    @rule(data=st.data(), kind=st.sampled_from(["table", "table", "view"]), purge=st.booleans(), keyed=KEYED)
    def drop_softly(self, data: st.DataObject, kind: str, purge: bool, keyed: bool) -> None:
        levels, name = self.pick(data, kind)
        path = table_path(levels, name) if kind == "table" else view_path(levels, name)
        query = "?purgeRequested=true" if purge and kind == "table" else ""
        act = lambda: self.model.drop_softly(kind, levels, name)  # noqa: E731
        _, deleted = self.ask(f"drop {kind} softly", "DELETE", path + query, None, act, keyed=keyed, success=204)
        if deleted is not None:
            known = {each.id for each in self.model.deleted}
            (deleted.id,) = {each["id"] for each in self.listed_as_deleted()} - known

    def listed_as_deleted(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.manage("GET", "/deleted-tabulars").json["tabulars"]
        return found

    @precondition(lambda self: self.model.deleted)
    @rule(data=st.data(), count=st.integers(1, 2), force=st.booleans())
    def undrop(self, data: st.DataObject, count: int, force: bool) -> None:
        chosen = data.draw(st.lists(st.sampled_from(self.model.deleted), min_size=1, max_size=count, unique_by=lambda each: each.id))
        targets = [{"type": each.tabular.kind, "id": each.id} for each in chosen]
        refusal = None
        try:
            self.model.undrop(chosen, force=force)
        except Refused as refused:
            refusal = refused.answer
        answer = self.manage("POST", "/deleted-tabulars/undrop", {"targets": targets, "force": force})
        self.count(f"undrop {answer.status if refusal is None else refusal[1]}")
        if refusal is not None:
            assert refusal == answer.error, answer.message
        else:
            assert 204 == answer.status, answer.body
            self.position = max(self.position, answer.position)

    @precondition(lambda self: self.holds("table"))
    @rule(data=st.data(), purge=st.booleans())
    def drop_and_expire(self, data: st.DataObject, purge: bool) -> None:
        """By clocks that are behind, so that the table is due at once."""
        levels, name = self.pick(data, "table")
        try:
            self.model.drop("table", levels, name, purge=purge)
        except Refused:
            return
        parts, identifier_ = self.catalog.parts, TabularIdentifier(NamespaceIdentifier(tuple(levels)), name)
        warehouse = self.catalog.run(resolve_warehouse(parts.backends, PROJECT_ID, self.warehouse.name))
        with clocks_behind(parts.commands, 100_000_000):
            self.catalog.run(drop_table(parts.commands, context("dropTable"), warehouse, DropTable(identifier_, purge)))
        due = "select 1 from icecore.soft_deleted where to_position is null and expires_at_ms < %s"
        while self.catalog.rows(due, now_ms()):
            self.catalog.run(parts.soft_deletion.run_once())
        self.count(f"expired{' with purge' if purge else ''}")
        self.wait_for_purge()

    @precondition(lambda self: self.holds("table", "view"))
    @rule(data=st.data(), kind=st.sampled_from(["table", "table", "view"]), purge=st.booleans(), keyed=KEYED)
    def drop(self, data: st.DataObject, kind: str, purge: bool, keyed: bool) -> None:
        levels, name = self.pick(data, kind)
        purge = purge and kind == "table"
        path = table_path(levels, name) if kind == "table" else view_path(levels, name)
        query = "?force=true&purgeRequested=true" if purge else "?force=true"
        act = lambda: self.model.drop(kind, levels, name, purge=purge)  # noqa: E731
        operation = f"drop {kind}{' with purge' if purge else ''}"
        answer, _ = self.ask(operation, "DELETE", path + query, None, act, keyed=keyed, success=204)
        if purge and answer.status == 204:
            self.wait_for_purge()

    @precondition(lambda self: self.holds("table"))
    @rule(data=st.data(), keyed=KEYED)
    def unregister(self, data: st.DataObject, keyed: bool) -> None:
        levels, name = self.pick(data, "table")
        path = f"{table_path(levels, name)}/unregister"
        answer, tabular = self.ask("unregister", "POST", path, None, lambda: self.model.drop("table", levels, name), keyed=keyed)
        assert tabular is None or tabular.file == answer.json["metadata-location"]

    @precondition(lambda self: self.model.files)
    @rule(data=st.data(), name=NAMES, overwrite=st.booleans(), keyed=KEYED)
    def register(self, data: st.DataObject, name: str, overwrite: bool, keyed: bool) -> None:
        file = data.draw(st.sampled_from(self.model.files))
        gone = data.draw(st.integers(0, 9)) == 0
        if gone:
            file = File(file.kind, f"{file.location}.gone", file.content)
        levels = self.pick_namespace(data)
        if overwrite and file.kind == "table":
            levels, name = self.pick(data, "table")
        takes_over = overwrite and file.kind == "table"
        body: dict[str, Any] = {"name": name, "metadata-location": file.location}
        if file.kind == "table":
            body["overwrite"] = takes_over
        path = f"{namespace_path(levels)}/register{'' if file.kind == 'table' else '-view'}"
        act = lambda: self.model.register(file.kind, levels, name, file, overwrite=takes_over)  # noqa: E731
        operation = f"register {file.kind}{' over' if takes_over else ''}"
        self.learned(*self.ask(operation, "POST", path, body, act, keyed=keyed))

    # Keys, and the past

    @precondition(lambda self: self.keyed)
    @rule(data=st.data())
    def repeat(self, data: st.DataObject) -> None:
        method, path, body, key, first = data.draw(st.sampled_from(self.keyed))
        again = self.client.call(method, path, body, key=key)
        self.count(f"repeated {first.status}")
        assert first.replayable == again.replayable

    @precondition(lambda self: self.keyed)
    @rule(data=st.data(), name=NAMES)
    def reuse_a_key(self, data: st.DataObject, name: str) -> None:
        *_, key, _ = data.draw(st.sampled_from(self.keyed))
        self.count("key reused")
        answer = self.client.call("POST", "/namespaces", {"namespace": [name, "of a reused key"]}, key=key)
        assert (422, "UnprocessableEntityException") == answer.error

    @precondition(lambda self: len(self.pasts) > 1)
    @rule(data=st.data())
    def look_back(self, data: st.DataObject) -> None:
        position = data.draw(st.sampled_from(sorted(self.pasts)))
        self.count("looked back")
        then = self.client.at(position)
        assert self.pasts[position] == everything(then)
        assert (406, "UnsupportedOperationException") == then.call("POST", "/namespaces", {"namespace": ["new"]}).error

    # After every step

    @invariant()
    def the_read_models_say_what_the_model_says(self) -> None:
        if not hasattr(self, "model"):
            return
        found = everything(self.client)
        assert expected_names(self.model) == {path: names for path, names in found.items() if not path.startswith("=")}
        for (path, key), tabular in self.model.tabulars.items():
            levels = self.model_levels(path)
            body = found[f"={tabular.kind} {levels} {tabular.name}"]
            assert tabular.file == body["metadata-location"], (path, key)
            assert as_content(tabular.kind, body["metadata"]) == tabular.content, (path, key)
        self.pasts[self.position] = found
        assert {each.id for each in self.model.deleted} == {each["id"] for each in self.listed_as_deleted()}

    @invariant()
    def the_log_folds_to_the_read_models(self) -> None:
        if self.verifies and hasattr(self, "model"):
            report = self.catalog.run(verify(self.catalog.server.dsn))
            assert report.ok, str(report)

    def model_levels(self, path: Path) -> Levels:
        return [self.model.namespaces[path[: depth + 1]].name for depth in range(len(path))]

    def there(self, levels: Levels, name: str) -> Content | None:
        found = self.model.tabulars.get((self.model.path(levels), self.model.key(name)))
        return None if found is None or found.kind != "table" else found.content

    def updates(self, data: st.DataObject, content: Content | None, *, moves: bool) -> tuple[list[dict[str, Any]], list[Change]]:
        """Updates of an engine, and their effect on a table's content."""
        content = content or Content(location=f"{self.warehouse.base}/nowhere")
        match data.draw(st.sampled_from(["properties", "snapshot", "column", "nothing", "move" if moves else "snapshot"])):
            case "properties":
                values, gone = data.draw(PROPERTIES), data.draw(st.lists(st.sampled_from(["k", "l"]), max_size=1))
                kept: Change = lambda c: replace(c, properties={k: v for k, v in {**c.properties, **values}.items() if k not in gone})  # noqa: E731
                return [set_properties(values), {"action": "remove-properties", "removals": gone}], [kept]
            case "snapshot":
                return self.append(content)
            case "column":
                columns = [
                    *SCHEMA["fields"],
                    *({"id": n, "name": f"c{n}", "type": "long", "required": False} for n in range(2, content.columns + 2)),
                ]
                schema = {"type": "struct", "fields": columns}
                wider: Change = lambda c: replace(c, columns=c.columns + 1, schemas=c.schemas + 1)  # noqa: E731
                return [{"action": "add-schema", "schema": schema}, {"action": "set-current-schema", "schema-id": -1}], [wider]
            case "move":
                location = self.place(data.draw(PLACES)) or f"{self.warehouse.base}/moved-{self.number()}"
                return [{"action": "set-location", "location": location}], [lambda c: replace(c, location=location)]
        return [], []

    def append(self, content: Content) -> tuple[list[dict[str, Any]], list[Change]]:
        number = self.number()
        snapshot: dict[str, Any] = {
            "snapshot-id": number,
            "sequence-number": len(content.snapshots) + 1,
            "timestamp-ms": time.time_ns() // 1_000_000,
            "manifest-list": f"{content.location}/metadata/snap-{number}.avro",
            "summary": {"operation": "append"},
            "schema-id": 0,
        }
        if content.current_snapshot is not None:
            snapshot["parent-snapshot-id"] = content.current_snapshot
        reference = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": number}
        return [{"action": "add-snapshot", "snapshot": snapshot}, reference], [lambda c: replace(c, snapshots=(*c.snapshots, number))]

    def requirement(self, data: st.DataObject, content: Content | None, *, right: bool) -> dict[str, Any]:
        content = content or Content(uuid=str(uuid4()))
        wrong = 0 if right else 1
        requirements: Sequence[dict[str, Any]] = (
            {"type": "assert-table-uuid", "uuid": content.uuid if right else str(uuid4())},
            {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": content.current_snapshot if right else 999_999},
            {"type": "assert-last-assigned-field-id", "last-assigned-field-id": content.columns + wrong},
            {"type": "assert-current-schema-id", "current-schema-id": content.schemas - 1 + wrong},
        )
        return data.draw(st.sampled_from(requirements))

    def wait_for_purge(self) -> None:
        waiting = """
            select 1 from icecore.tables t where t.status = 'purging'
            and not exists (select 1 from icecore.tables l where l.table_id = t.table_id and l.version > t.version)"""
        for _ in range(500):
            self.catalog.run(self.catalog.parts.purge.run_once())
            if not self.catalog.rows(waiting):
                break
            time.sleep(0.01)
        ((self.position,),) = self.catalog.rows("select max(notification_id) from icecore.events")


def everything(client: RestClient) -> dict[str, Any]:
    """For each namespace its properties and names, and for each table and view its answer, read over HTTP."""
    found: dict[str, Any] = {}

    def walk(levels: Levels) -> None:
        query = f"?parent={'%1F'.join(quote(level, safe='') for level in levels)}" if levels else ""
        children = client.call("GET", f"/namespaces{query}").json["namespaces"]
        properties = client.call("GET", namespace_path(levels)).json["properties"] if levels else {}
        tables, views = (client.table_names(*levels), client.view_names(*levels)) if levels else ([], [])
        found[str(levels)] = (properties, sorted(child[-1] for child in children), sorted(tables), sorted(views))
        for name in tables:
            found[f"=table {levels} {name}"] = client.load_table(levels, name).json
        for name in views:
            found[f"=view {levels} {name}"] = client.load_view(levels, name).json
        for child in children:
            walk(child)

    walk([])
    return found


def expected_names(model: CatalogModel) -> dict[str, Any]:
    spaces: dict[Path, Namespace] = {(): Namespace("", {}), **model.namespaces}
    return {
        str([spaces[path[: depth + 1]].name for depth in range(len(path))]): (
            space.properties,
            model.children(path),
            model.names("table", path),
            model.names("view", path),
        )
        for path, space in spaces.items()
    }


def as_content(kind: str, metadata: dict[str, Any]) -> Content:
    """The part of a document that the model has."""
    if kind == "view":
        queries = tuple(version["representations"][0]["sql"] for version in metadata["versions"])
        return Content(metadata["view-uuid"], metadata["location"], metadata["properties"], queries=queries)
    return Content(
        metadata["table-uuid"],
        metadata["location"],
        metadata["properties"],
        metadata["last-column-id"],
        len(metadata["schemas"]),
        tuple(snapshot["snapshot-id"] for snapshot in metadata["snapshots"]),
    )


@pytest.fixture
def machine(new_database: Callable[[], str]) -> Iterator[type[CatalogMachine]]:
    """The machine on a separate server."""
    with shared(new_database()) as opened:

        class Machine(CatalogMachine):
            catalog = opened
            outcomes: ClassVar[Counter[str]] = Counter()

        yield Machine


# Not shrunk by default, because that takes minutes and a run is short enough to read.
PHASES = list(Phase) if "ICECORE_TEST_MACHINE_EXAMPLES" in os.environ else [Phase.explicit, Phase.reuse, Phase.generate]
SETTINGS = settings(
    max_examples=EXAMPLES,
    stateful_step_count=STEPS,
    phases=PHASES,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
    report_multiple_bugs=False,
)


def test_the_catalog_is_its_model(machine: type[CatalogMachine]) -> None:
    """Random valid and invalid commands: the same answers, names and documents, and a log that folds to them."""
    run_state_machine_as_test(machine, settings=SETTINGS)
    for outcome, count in sorted(machine.outcomes.items()):
        print(f"{count:5} {outcome}")
    assert sum(machine.outcomes.values()) >= EXAMPLES * STEPS / 3
    # Both successes and refusals must occur besides the steps that begin every run. A few runs may have none by chance.
    if EXAMPLES < EXAMPLES_DEFAULT:
        return
    done = sum(count for outcome, count in machine.outcomes.items() if outcome.endswith((" 200", " 204")))
    refused = sum(count for outcome, count in machine.outcomes.items() if outcome.endswith("Exception"))
    assert min(done - BEGUN_WITH * EXAMPLES, refused) >= EXAMPLES, machine.outcomes


def test_a_view_keeps_its_newest_versions(machine: type[CatalogMachine]) -> None:
    """Random runs seldom commit to one view so often."""
    run = machine()
    try:
        run.open(exact_names=False)
        for _ in range(VIEW_VERSIONS_KEPT + 2):
            run.replace_view(["t"], "i", right=True, keyed=False)
            run.the_read_models_say_what_the_model_says()
    finally:
        run.teardown()
    kept = run.model.find("view", ["t"], "i").content.queries
    assert kept == tuple(f"select {number}" for number in range(12, 2, -1))


def _ignore_requirements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("icecore.domain.table.check_requirements", lambda base, requirements: None)


def _let_places_overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    # The log, the read models and verify agree with each other; only the model detects the fault.
    claims = table.claims
    monkeypatch.setattr(table, "claims", lambda state: frozenset(claim for claim in claims(state) if isinstance(claim, NameClaim)))


def _let_namespaces_overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    claims = namespace.claims
    monkeypatch.setattr(namespace, "claims", lambda state: frozenset(claim for claim in claims(state) if isinstance(claim, NameClaim)))


def _match_names_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("icecore.projections.names.name_key", lambda name, exact: name)


def _show_the_present_as_the_past(monkeypatch: pytest.MonkeyPatch) -> None:
    async def at_the_end(connection: object, point: str) -> int:
        return 2**62

    monkeypatch.setattr("icecore.access.resolve_warehouse._position", at_the_end)


def _move_namespaces_into_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    def decide_move(state: Any, source: str, destination: Any, *arguments: Any, **named: Any) -> Any:
        return namespace.decide_move(state, source, replace(destination, parent_path=()), *arguments, **named)

    monkeypatch.setattr("icecore.commands.namespaces.move_namespace.decide_move", decide_move)


@pytest.mark.random_mutants
@pytest.mark.parametrize(
    ("break_it", "seen"),
    [
        (_ignore_requirements, r"must be refused with \(409, 'CommitFailedException'\)"),
        (_let_places_overlap, r"must be refused with \(400, 'BadRequestException'\)"),
        (_let_namespaces_overlap, r"must be refused with \(400, 'BadRequestException'\)"),
        (_move_namespaces_into_themselves, r"must be refused with \(400, 'BadRequestException'\)"),
        (_match_names_exactly, "does not exist|already exists|already taken|must be refused"),
        (_show_the_present_as_the_past, "assert {"),
    ],
)
def test_a_catalog_with_a_broken_rule_is_not_its_model(
    machine: type[CatalogMachine], monkeypatch: pytest.MonkeyPatch, break_it: Callable[[pytest.MonkeyPatch], None], seen: str
) -> None:
    """Negative control: with each rule broken in the server, the test fails."""
    break_it(monkeypatch)
    # The model must detect it, because verify folds by the same rules.
    machine.verifies = False
    once = settings(SETTINGS, max_examples=40, phases=[Phase.generate], derandomize=True, database=None, print_blob=False)
    with pytest.raises(AssertionError, match=seen):
        run_state_machine_as_test(machine, settings=once)

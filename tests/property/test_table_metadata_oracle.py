"""Table metadata compared with Iceberg's own Java code: the same document or the same error for any updates."""

import copy
import itertools
import json
import os
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from icecore.domain.errors import BadRequest, CatalogError, CommitFailed, IllegalArgument, ValidationFailed
from icecore.domain.metadata.create import new_table_metadata
from icecore.domain.metadata.draft import empty_metadata
from icecore.domain.metadata.fields import SHOWN_CHARACTERS_MAX
from icecore.domain.metadata.parse import parse_table_metadata
from icecore.domain.metadata.requirements import check_requirements, parse_requirements
from icecore.domain.metadata.updates import apply_updates, parse_updates
from tests.fixtures.oracle import JavaOracle
from tests.property import table_updates
from tests.property.table_updates import COMMIT_EVERY_MS, NOW_MS, TABLE_UUID, Json

SEQUENCES = int(os.environ.get("ICECORE_TEST_ORACLE_SEQUENCES", "400"))
# A long run has no deadline.
pytestmark = pytest.mark.timeout(max(600, SEQUENCES))
COMMITS_MAX = 5

ILL_FORMED = (IllegalArgument, BadRequest)
# Java's exceptions and our corresponding errors.
REFUSALS: dict[str, tuple[type[CatalogError], ...]] = {
    "IllegalArgumentException": ILL_FORMED,
    "NumberFormatException": (IllegalArgument,),
    "ValidationException": (ValidationFailed,),
    "RetryableValidationException": (ValidationFailed,),
    "CommitFailedException": (CommitFailed,),
    # The reference server returns 406. The REST spec requires 400 for unknown values.
    "UnsupportedOperationException": (*ILL_FORMED, ValidationFailed),
    # Types and defaults of a later format version: 500 in the reference.
    "IllegalStateException": ILL_FORMED,
}
# If Java crashes instead of refusing, any of our refusals (all are 400 or 409) is accepted.
JAVA_FAILS = {
    "NullPointerException": "a default id that nothing has, a null default value, a column that is gone, updates before the first schema",
    "NoSuchElementException": "a current snapshot without an entry in the log, and snapshots removed",
    "DateTimeParseException": "a default value that is no date or time",
    "UnreadableResultException": "what was removed is used again in one request: Java's parser refuses what its builder made",
}
# Messages that contain Java's internals, by their common beginning. The type of the error must still be equal.
MESSAGES_OF_JAVA = (
    "Multiple entries with same key",  # in the order of a hash map, with Java objects
    "Invalid create requirements",  # object addresses
    "Cannot create expression literal from",  # Java classes: a default for a list or map
    "Unrecognized character",  # of base 16 or 64
    "Illegal base64 character",
    "Input byte",
    "Last unit does not have enough valid bits",
    "com.google",
    "org.apache.iceberg.relocated",
    "Invalid UUID string",
    "Cannot parse default",  # JSON numbers are shown otherwise
    "Invalid schema for v",  # default values as Java holds them: days, byte buffers
    "Invalid default value for",
    "path must not be null or empty",
    "Cannot serialize",
)
DEFAULT_FOR_A_MAP = r"Cannot parse .* to a map<"  # No column may have it; here it is refused at once.

oracle_settings = settings(
    max_examples=SEQUENCES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)


def outcome(action: Callable[[], Json]) -> Json | CatalogError:
    try:
        return action()
    except CatalogError as refusal:
        return refusal


def written(document: Json) -> Json:
    """The document as the table spec requires for each format version, with Java's hash maps in a fixed order."""
    version = document["format-version"]
    file = dict(document)
    if file["current-snapshot-id"] is None and version < 3:
        file["current-snapshot-id"] = -1
    if version == 1:
        del file["last-sequence-number"]
        file["schema"] = next(schema for schema in file["schemas"] if schema["schema-id"] == file["current-schema-id"])
        file["partition-spec"] = next(spec for spec in file["partition-specs"] if spec["spec-id"] == file["default-spec-id"])["fields"]
    if version < 3:
        del file["next-row-id"]
    if not file["encryption-keys"]:
        del file["encryption-keys"]
    return file


def comparable(document: Json) -> str:
    """As text, in which True differs from 1."""
    ordered = {
        key: sorted(value, key=lambda file: file["snapshot-id"]) if key in ("statistics", "partition-statistics") else value
        for key, value in document.items()
    }
    ordered["schemas"] = [_with_ordered_identifiers(schema) for schema in document["schemas"]]
    if "schema" in document:
        ordered["schema"] = _with_ordered_identifiers(document["schema"])
    return json.dumps(ordered, sort_keys=True, indent=1)


def _with_ordered_identifiers(schema: Json) -> Json:
    """A set in the spec. For new tables, Java's hash set determines the order."""
    key = "identifier-field-ids"
    return {**schema, key: sorted(schema[key])} if key in schema else schema


def comparable_message(message: str) -> str:
    """The message without the current time, the versions that only Java supports, and the column that a hash map returns first."""
    message = re.sub(r"(Invalid update timestamp) \d+", r"\1", message)
    message = re.sub(r"(could not find column) .* from table prop \S+", r"\1", message)
    return message.replace("(supported: v4)", "(supported: v1, v2, v3)")


def assert_agreement(response: Json, ours: Json | CatalogError, java_document: Json | None) -> None:
    """Both have the same document, or the same type of error and message."""
    if java_document is not None:
        assert isinstance(ours, dict), f"Java made a document; here: {ours!r}"
        assert comparable(java_document) == comparable(written(ours))
        assert parse_table_metadata(java_document) == {**ours, **in_java_order(java_document, ours)}
        return
    kind, message = response["error"]["type"], response["error"]["message"] or ""
    assert isinstance(ours, CatalogError), f"Java refused with {kind}: {message}; here: {ours}"
    if kind in JAVA_FAILS:
        assert ours.status in (400, 409)
        return
    assert kind in REFUSALS, f"Java failed rather than refused: {response}"
    assert isinstance(ours, REFUSALS[kind]), f"Java refused with {kind}: {message}; here: {ours!r}"
    if not message.startswith(MESSAGES_OF_JAVA) and not re.match(DEFAULT_FOR_A_MAP, message):
        expected, text = comparable_message(message), comparable_message(ours.message)
        if text.endswith("…"):
            # Values in messages are cut, unlike Java's.
            expected, text = expected[: len(text) - 1], text[:-1]
            assert len(text) >= SHOWN_CHARACTERS_MAX
        assert expected == text


def in_java_order(java_document: Json, ours: Json) -> Json:
    """Puts our statistics and identifier fields, which are equal to Java's, in the order of Java's hash maps and sets."""
    order: Json = {}
    for key in ("statistics", "partition-statistics"):
        ids = [file["snapshot-id"] for file in java_document[key]]
        order[key] = sorted(ours[key], key=lambda file: ids.index(file["snapshot-id"]))
    identifiers = [{key: schema[key] for key in ("identifier-field-ids",) if key in schema} for schema in java_document["schemas"]]
    order["schemas"] = [{**mine, **theirs} for mine, theirs in zip(ours["schemas"], identifiers, strict=True)]
    return order


def is_lenient(response: Json, ours: Json | CatalogError) -> bool:
    """Java requires absent members where clients write null, and ids that the REST spec declares optional. Here both are accepted."""
    message = response.get("error", {}).get("message") or ""
    asked = (
        "Cannot parse to a long value: parent-snapshot-id: null",
        "Cannot parse to a long value: sequence-number: null",
        "Cannot parse to an integer value: field-id: null",
        "Cannot create expression literal from null",
        "Cannot parse missing int: spec-id",
        "Cannot parse to an integer value: spec-id: null",
    )
    # Java's array gets a negative size if more snapshots are to be removed than exist. Otherwise absent ids are ignored.
    return message in asked or message.startswith("arraySize cannot be negative")


def is_stricter(response: Json, ours: Json | CatalogError) -> bool:
    """Java accepts these although the table spec does not."""
    refused = (
        "Cannot find partition spec with default-spec-id",  # Java reads the file and fails at the next commit.
        "Cannot find sort order with default-sort-order-id",
        "Unsupported format version",  # 0 and below; 4, which is not finished
        "Invalid next-row-id",  # rows of the next snapshot would have the ids of others
    )
    if not isinstance(ours, CatalogError):
        return False
    first_looked_at = (
        "Cannot read unsupported version",  # checked first
        "Invalid snapshot-id: -1",  # Java uses it both for "no snapshot" and for this snapshot.
        "Cannot set main to a tag",  # The reference does the same after 1.11.0.
        "Cannot parse sort orders from non-array",  # objects and numbers, which Java reads as empty lists
        "Cannot parse snapshot-log from non-array",
        "Cannot parse metadata-log from non-array",
        "Cannot reassign uuid",  # Java accepts any text for any table.
        "Invalid UUID string",
        "Cannot assign a ",  # Java's ids overflow to negative numbers.
    )
    return ours.message.startswith(first_looked_at) or ("ok" in response and any(text in ours.message for text in refused))


def count_row_ids_by_the_spec(java_document: Json, ours: Json, updates: list[Json]) -> None:
    """Java adds a snapshot's rows to next-row-id even if they begin above it. The result is then not "higher than all assigned"."""
    if ours["next-row-id"] != java_document.get("next-row-id", 0):
        ends = [update["snapshot"]["first-row-id"] + update["snapshot"]["added-rows"] for update in _added_ranges(updates)]
        assert java_document["next-row-id"] < ours["next-row-id"]
        assert ours["next-row-id"] in ends
        java_document["next-row-id"] = ours["next-row-id"]


def is_behind_a_gap(ours: Json | CatalogError, updates: list[Json]) -> bool:
    """Whether Java accepts a row-id range that overlaps another one of the same request, or refuses it for another reason."""
    if not isinstance(ours, CatalogError) or "first-row-id is behind" not in ours.message:
        return False
    ranges = sorted((update["snapshot"]["first-row-id"], update["snapshot"]["added-rows"]) for update in _added_ranges(updates))
    return any(first + added > later for (first, added), (later, _) in itertools.pairwise(ranges))


def _added_ranges(updates: list[Json]) -> list[Json]:
    return [update for update in updates if update["action"] == "add-snapshot" and update["snapshot"].get("first-row-id") is not None]


def commit(base: Json | None, base_location: str | None, asked: list[Json], updates: list[Json], now_ms: int) -> Json:
    """Reads everything, checks the requirements and applies the updates, as the server does."""
    parse_requirements(asked)
    parsed = parse_updates(updates)
    check_requirements(base, asked)
    return apply_updates(base, parsed, now_ms=now_ms, previous_metadata_location=base_location, table_uuid=TABLE_UUID)


def assert_commit_agrees(oracle: JavaOracle, base: Json | None, asked: list[Json], updates: list[Json], step: int) -> Json | None:
    """Commits on both sides. Returns the new document; None after an error."""
    base_location = f"s3://b/t/metadata/{step:05}.metadata.json" if step % 4 else None
    now_ms = NOW_MS + step * COMMIT_EVERY_MS
    before = copy.deepcopy((base, asked, updates))
    ours = outcome(lambda: commit(base, base_location, asked, updates, now_ms))
    assert before == (base, asked, updates), "the inputs have been changed"
    request = {"kind": "table", "base": base and written(base), "base-location": base_location, "now-ms": now_ms}
    response = oracle.ask({**request, "requirements": asked, "updates": updates})
    if base is None and "ok" in response and all(update.get("action") != "assign-uuid" for update in updates):
        response["ok"]["metadata"]["table-uuid"] = TABLE_UUID  # Java draws it at random; here the caller passes it.
    if is_lenient(response, ours) or is_stricter(response, ours) or is_behind_a_gap(ours, updates):
        return None
    if "ok" in response and isinstance(ours, dict):
        count_row_ids_by_the_spec(response["ok"]["metadata"], ours, updates)
    if "ok" in response and base is not None:
        assert response["ok"]["changed"] is (ours is not base)
        if ours is base:
            return base
        # An element that is removed and added again in one request is a new part, even if it is equal.
        if isinstance(ours, dict) and not any(update["action"].startswith("remove-") for update in updates):
            assert_shared(base, ours)
    assert_agreement(response, ours, response["ok"]["metadata"] if "ok" in response else None)
    return ours if isinstance(ours, dict) else None


def assert_shared(base: Json, ours: Json) -> None:
    """Every part that equals one of the base is the same object, because the log's delta is computed by identity."""
    for key in ("schemas", "partition-specs", "sort-orders", "snapshots", "encryption-keys"):
        copies = [part for part in ours[key] if part in base[key] and not any(part is one for one in base[key])]
        assert not copies, f"{key}: copied instead of shared"
    assert all(ours["refs"][name] is ref for name, ref in base["refs"].items() if ours["refs"].get(name) == ref)


def create(creation: Json, now_ms: int = NOW_MS) -> Json:
    return new_table_metadata(
        table_uuid=TABLE_UUID,
        location=creation["location"],
        schema=creation.get("schema"),
        partition_spec=creation.get("partition-spec"),
        write_order=creation.get("write-order"),
        properties=creation.get("properties", {}),
        now_ms=now_ms,
    )


def assert_creation_agrees(oracle: JavaOracle, creation: Json) -> Json | None:
    ours = outcome(lambda: create(creation))
    response = oracle.ask({"kind": "create", "table-uuid": TABLE_UUID, "now-ms": NOW_MS, **creation})
    if is_lenient(response, ours) or is_stricter(response, ours):
        return None
    assert_agreement(response, ours, response.get("ok"))
    return ours if isinstance(ours, dict) else None


def assert_file_agrees(oracle: JavaOracle, document: Json) -> Json | None:
    """Reads one file on both sides. Java drops unknown members; here they are kept."""
    before = copy.deepcopy(document)
    ours = outcome(lambda: parse_table_metadata(document))
    assert before == document, "the input has been changed"
    response = oracle.ask({"kind": "parse", "document": document})
    if is_lenient(response, ours) or is_stricter(response, ours):
        return None
    if isinstance(ours, CatalogError):
        assert_agreement(response, ours, response.get("ok"))
        return None
    assert "ok" in response, f"Java refused with {response}; here: {ours}"
    unknown = {key for key in document if key not in empty_metadata(2)} - {"schema", "partition-spec"}
    known = {key: value for key, value in ours.items() if key not in unknown}
    assert {key: ours[key] for key in unknown} == {key: document[key] for key in unknown}
    assert_agreement(response, known, response["ok"])
    return known


def assert_sequence_agrees(oracle: JavaOracle, data: st.DataObject) -> None:
    """Creates a table in one of three ways, and makes each commit on the result of the previous one."""
    way = data.draw(st.integers(0, 3))
    table: Json | None = None
    if way == 0:
        table = assert_creation_agrees(oracle, data.draw(table_updates.creations()))
    elif way == 1:
        table = assert_commit_agrees(oracle, None, [{"type": "assert-create"}], data.draw(table_updates.births()), 0)
    table = table or assert_file_agrees(oracle, data.draw(table_updates.documents()))
    for step in range(1, 1 + data.draw(st.integers(1, COMMITS_MAX))):
        assert table is not None
        asked, updates = data.draw(table_updates.requirements(table)), data.draw(table_updates.commits(table))
        table = assert_commit_agrees(oracle, table, asked, updates, step) or table


@oracle_settings
@given(data=st.data())
def test_sequences_of_commits_agree_with_java(java_oracle: JavaOracle, data: st.DataObject) -> None:
    """The documents and errors are the same as in Java, from the table's creation on."""
    assert_sequence_agrees(java_oracle, data)


@oracle_settings
@given(document=table_updates.broken(table_updates.documents()))
def test_broken_files_are_read_or_refused_as_in_java(java_oracle: JavaOracle, document: Json) -> None:
    """A file with one wrong member, at whatever depth, is read or refused as in Java."""
    assert_file_agrees(java_oracle, document)


def map_type(key: Any, value: Any) -> Json:
    """A map whose key and value have the same id."""
    return {"type": "map", "key-id": 20, "key": key, "value-id": 20, "value": value, "value-required": False}


# Java then confuses the fields of the value with those of the key.
SAME_IDS = map_type(map_type("int", "int"), map_type("int", "int"))


@oracle_settings
@given(creation=table_updates.broken_creations())
@example(
    creation={
        "location": "s3://b/t",
        "schema": {"type": "struct", "fields": [{"id": 1, "name": "id", "required": False, "type": SAME_IDS}]},
        "partition-spec": None,
        "write-order": None,
        "properties": {},
    }
)
def test_broken_creations_are_refused_as_in_java(java_oracle: JavaOracle, creation: Json) -> None:
    """A creation with one wrong member is accepted or refused as in Java."""
    assert_creation_agrees(java_oracle, creation)


def _unequal(_: object) -> object:
    return object()


def _any_ref(snapshot_id: int, kind: str, *_: object) -> Json:
    return {"snapshot-id": snapshot_id, "type": kind}


BROKEN_RULES = {
    "equal schemas share one id": ("icecore.domain.metadata.columns.schema_key", _unequal),
    "equal specs share one id": ("icecore.domain.metadata.columns.spec_key", _unequal),
    "history has no gaps": ("icecore.domain.metadata.history.correct_snapshot_log", lambda log, *_: log),
    "the metadata log is trimmed": ("icecore.domain.metadata.logs.METADATA_PREVIOUS_VERSIONS_MAX", "no.such.property"),
    "retention is positive, and of branches": ("icecore.domain.metadata.updates.make_ref", _any_ref),
    "row ids come with version 3": ("icecore.domain.metadata.history.ROW_LINEAGE_MIN_FORMAT_VERSION", 2),
}


@pytest.mark.random_mutants
@pytest.mark.parametrize(("target", "wrong"), BROKEN_RULES.values(), ids=BROKEN_RULES.keys())
def test_a_broken_rule_is_found(java_oracle: JavaOracle, monkeypatch: pytest.MonkeyPatch, target: str, wrong: object) -> None:
    """Negative control: with one rule broken, the results differ from Java's."""

    @settings(oracle_settings, max_examples=2_000, phases=[Phase.generate], derandomize=True, report_multiple_bugs=False)
    @given(data=st.data())
    def sequences_agree(data: st.DataObject) -> None:
        assert_sequence_agrees(java_oracle, data)

    monkeypatch.setattr(target, wrong)
    with pytest.raises(AssertionError):
        sequences_agree()

"""View metadata compared with Iceberg's own Java code: the same document or the same error for any updates."""

import copy
import os
import re
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings

from icecore.domain.errors import BadRequest, CatalogError, CommitFailed, IllegalArgument, ValidationFailed
from icecore.domain.view_metadata import apply_view_updates, builder, check_view_requirements, new_view_metadata, parse_view_metadata
from tests.fixtures.oracle import JavaOracle
from tests.property import view_updates
from tests.property.view_updates import NOW_MS, VIEW_UUID, Json

SEQUENCES = int(os.environ.get("ICECORE_TEST_ORACLE_SEQUENCES", "200"))
# A long run has no deadline.
pytestmark = pytest.mark.timeout(max(600, SEQUENCES))

# Java's exceptions and our corresponding errors. The reference server returns 406 or 500 to some client errors; ours returns 400, as the
# REST spec requires for unknown updates and requirements.
REFUSALS: dict[str, tuple[type[CatalogError], ...]] = {
    "IllegalArgumentException": (IllegalArgument, BadRequest),
    "NumberFormatException": (IllegalArgument,),
    "ValidationException": (ValidationFailed,),
    "CommitFailedException": (CommitFailed,),
    "UnsupportedOperationException": (BadRequest, IllegalArgument),
    "IllegalStateException": (ValidationFailed, IllegalArgument),
}

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


def written(document: Json) -> bytes:
    """The document as Java writes it. Types and the order of lists count."""
    return orjson.dumps({key: value for key, value in document.items() if key != "properties" or value}, option=orjson.OPT_SORT_KEYS)


def comparable(message: str) -> str:
    """The message without the order of Java's hash sets and Java's formatting of objects."""
    if message.startswith("Multiple entries with same key"):
        return "Multiple entries with same key"
    return re.sub(r"\[([^\[\]]*)\]", lambda found: str(sorted(found.group(1).split(", "))), message)


def assert_agreement(response: Json, ours: Json | CatalogError, java_document: Json | None, *, messages: bool = True) -> None:
    """Both have the same document, or the same type of error and message."""
    if "error" in response:
        java_type, java_message = response["error"]["type"], response["error"]["message"]
        assert java_type in REFUSALS, f"Java failed rather than refused: {response}"
        assert isinstance(ours, REFUSALS[java_type]), f"Java refused with {java_type}: {java_message}; here: {ours!r}"
        if messages:
            assert comparable(java_message) == comparable(ours.message)
    elif isinstance(ours, CatalogError) and ours.message.startswith("Invalid UUID string"):
        # Java accepts any text as a UUID.
        assert isinstance(ours, IllegalArgument)
    else:
        assert isinstance(ours, dict), f"Java made a document; here: {ours!r}"
        assert java_document is not None
        assert written(java_document) == written(ours)


def assert_commit_agrees(oracle: JavaOracle, base: Json | None, updates: list[Json]) -> Json | None:
    """Commits on both sides. Returns the new document; None after an error."""
    before = copy.deepcopy((base, updates))
    ours = outcome(lambda: apply_view_updates(base, updates, now_ms=NOW_MS))
    assert before == (base, updates), "the inputs have been changed"
    response = oracle.ask({"kind": "view", "base": base, "updates": updates, "now-ms": NOW_MS})
    if isinstance(ours, dict) and "ok" in response and base is not None:
        assert response["ok"]["changed"] is (ours is not base)
        if ours is base:  # Java then commits nothing, and its builder's result is discarded.
            return base
        for kind in ("schemas", "versions", "version-log"):
            fresh = [element for element in ours[kind] if not any(element is one for one in base[kind])]
            assert not [element for element in fresh if element in base[kind] and kind != "version-log"], "copied instead of shared"
    assert_agreement(response, ours, response["ok"]["metadata"] if "ok" in response else None)
    return ours if isinstance(ours, dict) else None


def create(creation: Json) -> Json:
    return new_view_metadata(
        view_uuid=VIEW_UUID,
        location=creation["location"],
        schema=creation.get("schema"),
        view_version=creation.get("view-version"),
        properties=creation.get("properties", {}),
        now_ms=NOW_MS,
    )


@oracle_settings
@given(first=view_updates.creations(), commits=view_updates.commits())
def test_commits_agree_with_java(java_oracle: JavaOracle, first: Json, commits: list[list[Json]]) -> None:
    """The documents and errors are the same as in Java, commit by commit."""
    view = outcome(lambda: create(first))
    assume(isinstance(view, dict))
    for updates in commits:
        assert isinstance(view, dict)
        view = assert_commit_agrees(java_oracle, view, updates) or view


@oracle_settings
@given(document=view_updates.documents(), commits=view_updates.commits())
def test_commits_on_a_registered_file_agree_with_java(java_oracle: JavaOracle, document: Json, commits: list[list[Json]]) -> None:
    """A file with many versions is read, trimmed and changed as in Java."""
    view = outcome(lambda: parse_view_metadata(document))
    response = java_oracle.ask({"kind": "parse-view", "document": document})
    assert_agreement(response, view, response.get("ok"))
    for updates in commits if isinstance(view, dict) else ():
        assert isinstance(view, dict)
        view = assert_commit_agrees(java_oracle, view, updates) or view


@oracle_settings
@given(birth=view_updates.births())
def test_views_built_of_nothing_agree_with_java(java_oracle: JavaOracle, birth: list[Json]) -> None:
    """Updates without a base have the same result as in Java's empty builder."""
    assert_commit_agrees(java_oracle, None, birth)


@oracle_settings
@given(creation=view_updates.creations() | view_updates.broken(view_updates.creations()))
def test_creations_agree_with_java(java_oracle: JavaOracle, creation: Json) -> None:
    """The first document or error is that of Java's catalog, except for the summary, which is the client's."""
    location = creation.get("location")
    assume(location and isinstance(location, str))  # Locations are checked elsewhere.
    assume(not has_text_like_levels(creation.get("view-version")))
    response = java_oracle.ask({"kind": "create-view", "view-uuid": VIEW_UUID, "now-ms": NOW_MS, **creation})
    assert_agreement(response, outcome(lambda: create(creation)), response.get("ok"), messages=False)


@oracle_settings
@given(document=view_updates.broken(view_updates.documents()))
def test_broken_files_are_refused_as_in_java(java_oracle: JavaOracle, document: Json) -> None:
    """A file with one wrong member is read or refused as in Java."""
    assume(not any(has_text_like_levels(version) for version in members(document.get("versions"))))
    response = java_oracle.ask({"kind": "parse-view", "document": document})
    assert_agreement(response, outcome(lambda: parse_view_metadata(document)), response.get("ok"), messages=False)


@oracle_settings
@given(first=view_updates.creations(), update=view_updates.broken(view_updates.updates()))
def test_broken_updates_are_refused_as_in_java(java_oracle: JavaOracle, first: Json, update: Json) -> None:
    """An update with one wrong member is applied or refused as in Java."""
    view = outcome(lambda: create(first))
    assume(isinstance(view, dict) and not has_text_like_levels(update.get("view-version")))
    assert isinstance(view, dict)
    ours = outcome(lambda: apply_view_updates(view, [update], now_ms=NOW_MS))
    response = java_oracle.ask({"kind": "view", "base": view, "updates": [update], "now-ms": NOW_MS})
    if ours is not view or "error" in response:
        assert_agreement(response, ours, response["ok"]["metadata"] if "ok" in response else None, messages=False)


def members(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def has_text_like_levels(version: Any) -> bool:
    """A default namespace with levels that are not strings. Java converts them to text; here they are refused."""
    levels = version.get("default-namespace") if isinstance(version, dict) else None
    return any(not isinstance(level, str) for level in members(levels))


REQUIREMENTS: list[Json] = [
    {"type": "assert-view-uuid", "uuid": VIEW_UUID},
    {"type": "assert-view-uuid", "uuid": VIEW_UUID.upper()},
    {"type": "Assert-View-UUID", "uuid": "0191d9a6-0000-7000-8000-00000000000b"},
    {"type": "assert-create"},
    {"type": "assert-table-uuid", "uuid": VIEW_UUID},
    {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": None},
    {"type": "assert-last-assigned-field-id", "last-assigned-field-id": 1},
    {"type": "assert-current-schema-id", "current-schema-id": 1},
    {"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": 1},
    {"type": "assert-default-spec-id", "default-spec-id": 1},
    {"type": "assert-default-sort-order-id", "default-sort-order-id": 1},
    {"type": "assert-fine-weather"},
    {"type": 7},
    {"type": None},
    {"type": "assert-view-uuid"},
    {"type": "assert-view-uuid", "uuid": None},
]

A_VIEW = create(
    {
        "location": "s3://b/v",
        "schema": {"type": "struct", "fields": []},
        "view-version": {
            "version-id": 1,
            "timestamp-ms": 1,
            "schema-id": 0,
            "summary": {},
            "default-namespace": ["ns"],
            "representations": [{"type": "sql", "sql": "select 1", "dialect": "spark"}],
        },
        "properties": {},
    }
)


def required(view: Json, requirement: Any) -> Json:
    check_view_requirements(view, [requirement])
    return view


@pytest.mark.parametrize("requirement", REQUIREMENTS, ids=str)
def test_requirements_agree_with_java(java_oracle: JavaOracle, requirement: Json) -> None:
    """A requirement passes or fails with the same message as in Java."""
    response = java_oracle.ask({"kind": "view", "base": A_VIEW, "requirements": [requirement], "updates": []})
    assert_agreement(response, outcome(lambda: required(A_VIEW, requirement)), response["ok"]["metadata"] if "ok" in response else None)


@settings(max_examples=SEQUENCES * 3, deadline=None)
@given(value=view_updates.junk())
def test_junk_is_refused_in_the_words_of_the_catalog(value: Any) -> None:
    """For any JSON in any place, the response is one of our 4xx errors."""
    for action in (
        lambda: parse_view_metadata(value),
        lambda: apply_view_updates(A_VIEW, [value], now_ms=NOW_MS),
        lambda: apply_view_updates(None, [value], now_ms=NOW_MS),
        lambda: apply_view_updates(A_VIEW, [{"action": "add-view-version", "view-version": value}], now_ms=NOW_MS),
        lambda: required(A_VIEW, value),
        lambda: new_view_metadata(
            view_uuid=VIEW_UUID, location="s3://b/v", schema=value, view_version=value, properties=value, now_ms=NOW_MS
        ),
    ):
        refusal = outcome(action)
        assert isinstance(refusal, dict) or 400 <= refusal.status < 500


@pytest.mark.random_mutants
@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("_version_key", lambda version: object()),
        ("schema_key", lambda schema: object()),
        ("_history_of", lambda versions, history: history),
        ("_dialects", lambda version: set()),
        ("_check_one_query_per_dialect", lambda version: None),
        ("VERSION_HISTORY_SIZE_DEFAULT", 11),
        ("LAST_ADDED", -2),
    ],
)
def test_a_wrong_rule_is_noticed(java_oracle: JavaOracle, monkeypatch: pytest.MonkeyPatch, name: str, wrong: Any) -> None:
    """Negative control: with any one of these rules broken, the results differ from Java's."""
    monkeypatch.setattr(builder, name, wrong)

    @settings(
        max_examples=1000, deadline=None, database=None, derandomize=True, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
    )
    @given(document=view_updates.documents(), commits=view_updates.commits())
    def compare(document: Json, commits: list[list[Json]]) -> None:
        view = outcome(lambda: parse_view_metadata(document))
        for updates in commits if isinstance(view, dict) else ():
            assert isinstance(view, dict)
            view = assert_commit_agrees(java_oracle, view, updates) or view

    with pytest.raises(AssertionError):
        compare()

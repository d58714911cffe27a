"""Replaced names are not used again (docs/concepts/glossary.md)."""

import re
from pathlib import Path

import pytest

from tests.tidy.test_packaging import modules, shown

# Old name: new name.
REPLACED = {
    "ANSWER_BUDGET": "RESPONSE_BUDGET",
    "ANSWER_BYTES_MAX": "RESPONSE_BYTES_MAX",
    "ANSWER_LENGTH": "RESPONSE_LENGTH",
    "AuthenticateNobody": "AnonymousAuthenticator",
    "BEHIND_THE_LAST": "AFTER_LAST_ELEMENT",
    "BODY_HELD": "BODY_RESERVATION",
    "BREACHES_TOLD_MAX": "BREACHES_LISTED_MAX",
    "CREDENTIALS_KNOWN_BYTES_MAX": "CREDENTIALS_CACHED_BYTES_MAX",
    "CROWDED_WRITE_SECONDS_MAX": "CONTENDED_WRITE_SECONDS_MAX",
    "CROWD_REFUSALS": "CONTENTION_REFUSALS",
    "CROWD_SECONDS": "CONTENTION_SECONDS",
    "ClusterPlace": "ClusterDirectories",
    "ConnectionHandOff": "ConnectionPool",
    "DESCRIBED_BYTES_MAX": "ENRICHED_BYTES_MAX",
    "Describer": "EventEnricher",
    "FOLDERS_KNOWN_MAX": "FOLDERS_CACHED_MAX",
    "HeldBack": "PendingApproval",
    "HeldBytes": "Reservation",
    "HeldContent": "ContentReservation",
    "KEPT_WHOLE_BYTES_MAX": "WHOLE_DOCUMENT_BYTES_MAX",
    "KnownFolders": "FolderCache",
    "KnownName": "PathEntry",
    "KnownNames": "PathCache",
    "LARGE_ANSWERS": "LARGE_RESPONSES",
    "LARGE_KNOWN_MAX": "LARGE_TABLES_CACHED_MAX",
    "LOCATIONS_KNOWN_MAX": "LOCATIONS_CACHED_MAX",
    "LOOK_EVERY_SECONDS": "UNACCEPTED_CHECK_SECONDS",
    "LOOK_SECONDS": "CHECK_INTERVAL_SECONDS",
    "LargeAnswers": "LargeResponses",
    "MakeRoom": "ReserveMemory",
    "NAMESPACES_KNOWN_MAX": "NAMESPACES_CACHED_MAX",
    "NOUNS": "KINDS",
    "NOUN_STYLES": "KIND_STYLES",
    "NamespaceAnswer": "NamespaceResult",
    "OTHER_OF_NOUN": "OTHER_OF_KIND",
    "PLACES_MAX": "LOCATIONS_MAX",
    "PulledEvent": "RenderedEvent",
    "PulledEvents": "EventBatch",
    "REMEMBERS": "STORES_POSITION",
    "REQUEST_FIGURES": "REQUEST_METRICS",
    "RubbishAnswerError": "InvalidVerdictError",
    "SETTLE_PARTS_JOB": "CLOSE_PARTS_JOB",
    "STAGED_SECONDS_MAX": "PRELOADED_SECONDS_MAX",
    "SilenceWatch": "ConnectionWatchdog",
    "SoughtTable": "TableLookup",
    "SteppedBack": "ShareWaitEnded",
    "TableAnswer": "TableResult",
    "Telling": "EventRenderer",
    "Turns": "ContentionBackoff",
    "Unattended": "UnacceptedConnections",
    "WAREHOUSES_KNOWN_MAX": "WAREHOUSES_CACHED_MAX",
    "answer": "response",
    "answer_again": "repeated_response",
    "answer_found": "execute_unconnected",
    "answer_listing": "respond_listing",
    "answer_seconds_max": "timeout_seconds",
    "answered_to_parent": "responding_to_parent",
    "answers": "responses",
    "arrivals": "listener",
    "asked_for": "response_key",
    "came_through": "commit_succeeded",
    "carries_credential": "is_credential_property",
    "check_kept_whole_size": "check_whole_document_size",
    "check_places": "check_location_count",
    "closed_for_room": "closed_over_limit",
    "cluster_place": "cluster_directories",
    "created_alone": "creation_decision",
    "credentials_question": "load_credentials_query",
    "describe_names": "enrich_names",
    "event_followers_max": "event_subscribers_max",
    "give_back": "release",
    "given_up": "abandoned",
    "hand_on": "serve_next",
    "handed_over": "receive_parameters",
    "heard": "received",
    "held_bytes": "memory_bytes",
    "held_bytes_of": "memory_bytes_of",
    "is_spelled_as_it_lies": "is_visible_in_paths",
    "key_files_older": "key_files_previous",
    "known_names": "path_cache",
    "lapsed": "has_expired",
    "last_words": "last_lines",
    "let_go": "release_content",
    "lets_through": "matches",
    "lies_plainly_in": "is_plainly_below",
    "list_now": "list_current",
    "list_then": "list_as_of",
    "load_by_itself": "load_directly",
    "load_now": "load_current",
    "load_then": "load_as_of",
    "loaded_then": "load_as_of",
    "location_door": "location_policy",
    "log_unreachable": "postgres_unreachable",
    "make_room": "reserve_memory",
    "name_answer": "set_response_headers",
    "names_now_idx": "names_current_idx",
    "names_then_idx": "names_as_of_idx",
    "namespace_named": "parse_new_namespace",
    "namespace_sought": "parse_existing_namespace",
    "near_or_far": "inline_or_in_thread",
    "on_away": "on_unreachable",
    "one_by_itself": "loading_directly",
    "place_taken": "location_taken",
    "properties_now": "properties_current",
    "properties_then": "properties_as_of",
    "reached_snapshots": "snapshot_ancestry",
    "recorded_hold": "stored_refusal",
    "refuse_places_taken_by_others": "refuse_locations_taken_by_others",
    "refuse_taken_places": "refuse_taken_locations",
    "refuse_untaken": "refuse_unless_begun",
    "respell_levels": "normalize_separator",
    "rest_on": "depend_on",
    "rest_on_event": "depend_on_event",
    "rests_on": "dependencies",
    "room_for_parsed": "reserve_for_parsed",
    "sane_or_none": "safe_text_or_none",
    "say_ready": "report_ready",
    "says_credential": "contains_credential_word",
    "says_ready": "reports_ready",
    "settle_parts": "close_removed_parts",
    "settle_singly": "append_singly",
    "shared_place": "shared_location",
    "staged_at": "registered_at",
    "staged_parts": "preloaded_parts",
    "store_away": "store_unavailable",
    "sync_way": "sync_with_parents",
    "table_parts_now_idx": "table_parts_current_idx",
    "take_room": "reserve_memory",
    "taken_apart": "parse_text",
    "taken_apart_before": "parse_cached",
    "trouble": "problems",
    "unforeseen": "unexpected",
    "waits_for_answer": "waits_for_response",
    "why_closed": "closed_or_refusal",
    "why_failed": "failure_reason",
    "why_no_verdict": "invalid_verdict",
    "why_no_writes": "write_refusal",
}
_WORD = re.compile(rf"\b_?({'|'.join(REPLACED)}|\w+Figures|\w+_sought)\b")


def replaced(text: str) -> set[str]:
    return {found[0] for found in _WORD.finditer(text)}


@pytest.mark.parametrize("module", modules(), ids=shown)
def test_no_old_name_comes_back(module: Path) -> None:
    """In modules and the SQL files beside them."""
    texts = [file.read_text(encoding="utf-8") for file in (module, module.with_suffix(".sql")) if file.exists()]
    assert set() == {name for text in texts for name in replaced(text)}


@pytest.mark.parametrize("text", ["from .pull import Telling", "self._arrivals = 1", "class QueueFigures:", "def table_sought():"])
def test_an_old_name_would_be_found(text: str) -> None:
    """Public and private names."""
    assert replaced(text)


def test_a_longer_word_is_not_taken_for_an_old_name() -> None:
    """Only whole words count."""
    assert set() == replaced("preloaded_parts, ConnectionPool, figures, sought")

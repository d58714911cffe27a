"""Forbidden words: names that were replaced by the terms of the glossary (docs/concepts/glossary.md)."""

import re
from pathlib import Path

import pytest

from tests.tidy.test_packaging import CHECKOUT, modules, shown

FORBIDDEN = {
    "ANSWER_BUDGET",
    "ANSWER_BYTES_MAX",
    "ANSWER_LENGTH",
    "AuthenticateNobody",
    "BEHIND_THE_LAST",
    "BODY_HELD",
    "BREACHES_TOLD_MAX",
    "CREDENTIALS_KNOWN_BYTES_MAX",
    "CROWDED_WRITE_SECONDS_MAX",
    "CROWD_REFUSALS",
    "CROWD_SECONDS",
    "ClusterPlace",
    "CommandOutcome",
    "ConnectionHandOff",
    "CreatedTable",
    "DESCRIBED_BYTES_MAX",
    "Describer",
    "FOLDERS_KNOWN_MAX",
    "GATHER_SECONDS_MAX",
    "HELD_MAX",
    "HOLD_SECONDS_MAX",
    "HeldBack",
    "HeldBytes",
    "HeldContent",
    "KEPT_WHOLE_BYTES_MAX",
    "KnownFolders",
    "KnownName",
    "KnownNames",
    "LARGE_ANSWERS",
    "LARGE_KNOWN_MAX",
    "LOCATIONS_KNOWN_MAX",
    "LOOK_EVERY_SECONDS",
    "LOOK_SECONDS",
    "LargeAnswers",
    "MakeRoom",
    "NAMESPACES_KNOWN_MAX",
    "NOUNS",
    "NOUN_STYLES",
    "NamespaceAnswer",
    "OTHER_OF_NOUN",
    "PLACES_MAX",
    "PulledEvent",
    "PulledEvents",
    "REMEMBERS",
    "REQUEST_FIGURES",
    "RubbishAnswerError",
    "SERIALISATION",
    "SETTLE_PARTS_JOB",
    "STAGED_SECONDS_MAX",
    "SilenceWatch",
    "SoughtTable",
    "StaleName",
    "SteppedBack",
    "TableAnswer",
    "Telling",
    "Turns",
    "Unattended",
    "WAREHOUSES_KNOWN_MAX",
    "answer",
    "answer_again",
    "answer_found",
    "answer_listing",
    "answer_seconds_max",
    "answered_to_parent",
    "answers",
    "arrivals",
    "asked_for",
    "barred",
    "behind_last",
    "body_bytes_held_max",
    "broken_at",
    "came_through",
    "carries_credential",
    "check_kept_whole_size",
    "check_places",
    "closed_for_room",
    "cluster_place",
    "created_alone",
    "credentials_question",
    "describe_names",
    "effective_count",
    "event_followers_max",
    "execute_unconnected",
    "follow_orders",
    "give_back",
    "given_up",
    "hand_on",
    "handed_over",
    "heard",
    "held_bytes",
    "held_bytes_of",
    "idle_workers",
    "is_patient",
    "is_spelled_as_it_lies",
    "key_files_older",
    "known_names",
    "lapsed",
    "last_words",
    "let_go",
    "lets_through",
    "lies_plainly_in",
    "list_now",
    "list_then",
    "load_by_itself",
    "load_now",
    "load_then",
    "loaded_then",
    "location_door",
    "log_unreachable",
    "make_room",
    "name_answer",
    "names_now_idx",
    "names_then_idx",
    "namespace_named",
    "namespace_sought",
    "near_or_far",
    "on_away",
    "one_by_itself",
    "ordered_at",
    "place_taken",
    "postgres_unreachable_error",
    "properties_now",
    "properties_then",
    "proved_at",
    "reached_snapshots",
    "read_orders",
    "recorded_hold",
    "refuse_places_taken_by_others",
    "refuse_taken_places",
    "refuse_untaken",
    "respell_levels",
    "response_bytes_held_max",
    "rest_on",
    "rest_on_event",
    "rests_on",
    "room_for_parsed",
    "sane_or_none",
    "say_ready",
    "says_credential",
    "says_ready",
    "settle_parts",
    "settle_singly",
    "shared_place",
    "staged_at",
    "staged_parts",
    "store_away",
    "sync_way",
    "table_parts_now_idx",
    "take_room",
    "taken_apart",
    "taken_apart_before",
    "trouble",
    "unforeseen",
    "waits_for_answer",
    "why_closed",
    "why_failed",
    "why_no_verdict",
    "why_no_writes",
}
_WORD = re.compile(rf"\b_?({'|'.join(FORBIDDEN)}|\w+Figures|\w+_sought|\w+_AT_ONCE|\w+_AT_ONCE_\w+)\b")


def forbidden(text: str) -> set[str]:
    return {found[0] for found in _WORD.finditer(text)}


@pytest.mark.parametrize("module", modules(), ids=shown)
def test_no_old_name_comes_back(module: Path) -> None:
    """In modules and the SQL files beside them."""
    texts = [file.read_text(encoding="utf-8") for file in (module, module.with_suffix(".sql")) if file.exists()]
    assert set() == {name for text in texts for name in forbidden(text)}


@pytest.mark.parametrize("file", sorted((CHECKOUT / "migrations").rglob("*.sql")), ids=shown)
def test_no_old_name_is_in_a_migration(file: Path) -> None:
    assert set() == forbidden(file.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "text",
    [
        "from .pull import Telling",
        "self._arrivals = 1",
        "class QueueFigures:",
        "def table_sought():",
        "_READ_AT_ONCE = 1",
        "FILES_AT_ONCE_MAX",
    ],
)
def test_an_old_name_would_be_found(text: str) -> None:
    """Public and private names."""
    assert forbidden(text)


def test_a_longer_word_is_not_taken_for_an_old_name() -> None:
    """Only whole words count."""
    assert set() == forbidden("preloaded_parts, ConnectionPool, figures, sought")

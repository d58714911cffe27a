"""Names that gave way to the field's own words do not come back (docs/concepts/glossary.md)."""

import re
from pathlib import Path

import pytest

from tests.tidy.test_packaging import modules, shown

# The old name, and what it is called now.
REPLACED = {
    "ConnectionHandOff": "ConnectionPool",
    "Describer": "EventEnricher",
    "HeldBack": "PendingApproval",
    "KnownFolders": "FolderCache",
    "RubbishAnswerError": "InvalidVerdictError",
    "SilenceWatch": "ConnectionWatchdog",
    "SteppedBack": "ShareWaitEnded",
    "SoughtTable": "TableLookup",
    "Telling": "EventRenderer",
    "Turns": "ContentionBackoff",
    "answer_seconds_max": "timeout_seconds",
    "arrivals": "listener",
    "came_through": "commit_succeeded",
    "event_followers_max": "event_subscribers_max",
    "key_files_older": "key_files_previous",
    "load_now": "load_current",
    "load_then": "load_as_of",
    "location_door": "location_policy",
    "name_answer": "set_response_headers",
    "namespace_named": "parse_new_namespace",
    "namespace_sought": "parse_existing_namespace",
    "on_away": "on_unreachable",
    "reached_snapshots": "snapshot_ancestry",
    "settle_parts": "close_removed_parts",
    "staged_parts": "preloaded_parts",
}
_WORD = re.compile(rf"\b_?({'|'.join(REPLACED)}|\w+Figures|\w+_sought)\b")


def replaced(text: str) -> set[str]:
    return {found[0] for found in _WORD.finditer(text)}


@pytest.mark.parametrize("module", modules(), ids=shown)
def test_no_old_name_comes_back(module: Path) -> None:
    """Nor in the SQL beside the modules."""
    texts = [file.read_text(encoding="utf-8") for file in (module, module.with_suffix(".sql")) if file.exists()]
    assert set() == {name for text in texts for name in replaced(text)}


@pytest.mark.parametrize("text", ["from .pull import Telling", "self._arrivals = 1", "class QueueFigures:", "def table_sought():"])
def test_an_old_name_would_be_found(text: str) -> None:
    """As a name of its own, private or public."""
    assert replaced(text)


def test_a_longer_word_is_not_taken_for_an_old_name() -> None:
    """Only whole names count."""
    assert set() == replaced("preloaded_parts, ConnectionPool, figures, sought")

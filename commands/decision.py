"""What a command came to on the state it saw: events to append, files to write first, and the answer once it is in the log."""

from collections.abc import Callable
from dataclasses import dataclass, field

from commands.context import Answer
from commands.submission import IdempotencyRecord, Submission
from domain.byte_pieces import Content
from projections.streams import State
from storage.locations import StorageLocation


@dataclass(frozen=True, slots=True)
class MetadataFile:
    """A metadata file that must stand before the event that names it."""

    location: StorageLocation
    document: Content | memoryview


@dataclass(slots=True)
class Decision:
    """One command's outcome, before it is appended.

    submission -- without events where nothing changes: answered at once, or recorded if it carries a key.
    record -- what the key is remembered by.
    answer -- the answer once the position is known.
    files -- written before the append, taken away again if it surely did not come to effect.
    after -- the state its stream is left in, for the command behind it; None where it does not write one stream.
    begun -- where it begins a stream: called once it is in the log, with the time (monotonic seconds) the append began at.
    """

    submission: Submission
    record: IdempotencyRecord
    answer: Callable[[int], Answer]
    files: list[MetadataFile] = field(default_factory=list)
    after: State | None = None
    begun: Callable[[float], None] | None = None


class Relocate(Exception):
    """The object a name was found to stand for has been renamed or dropped meanwhile: look again."""

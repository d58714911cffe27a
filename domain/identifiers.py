"""Names of namespaces, tables, views and warehouses, validated when they are parsed."""

import re
import unicodedata
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from .errors import BadRequest

ContentKind = Literal["namespace", "table", "view"]
"""What a warehouse contains."""

NAME_CODE_POINTS_MAX = 255
NAME_BYTES_MAX = 3 * NAME_CODE_POINTS_MAX
"""UTF-8 bytes of the name of a namespace, table or view."""
NAMESPACE_LEVELS_MAX = 16

_CHARACTERS_REFUSED = re.compile(r"""[*?${}'"\\`<>#%]""")
_CATEGORIES_REFUSED = {
    "Cc": "a control character",
    "Cf": "an invisible (bidi or zero-width) character",
    "Cs": "an unpaired surrogate",
    "Co": "a private-use character",
    "Zl": "a line separator",
    "Zp": "a paragraph separator",
}
_JOINERS = {"\u200c", "\u200d"}


def parse_name(text: str, what: str) -> str:
    """Returns `text` if it is a valid name; `what` ("table name", "namespace level") is the subject of the error message.

    Raises BadRequest if it is empty, longer than NAME_CODE_POINTS_MAX code points, not in Unicode form NFC, or contains a character that is
    refused (refused_character). Names are never normalized.
    """
    if not text:
        raise BadRequest(f"Invalid {what}: must not be empty")
    if len(text) > NAME_CODE_POINTS_MAX:
        raise BadRequest(f"Invalid {what}: longer than {NAME_CODE_POINTS_MAX} code points")
    if (refused := refused_character(text)) is not None:
        raise BadRequest(f"Invalid {what}: contains {refused}")
    if not unicodedata.is_normalized("NFC", text):
        raise BadRequest(f"Invalid {what}: not in Unicode normal form NFC")
    return text


def refused_character(text: str) -> str | None:
    """Describes the first character that names, locations and properties of clients must not contain; None if there is none.

    These are control, format, private-use and unpaired surrogate characters, and separators of lines and paragraphs, except joiners that
    join.
    """
    if text.isascii() and text.isprintable():
        return None
    for position, character in enumerate(text):
        refused = _CATEGORIES_REFUSED.get(unicodedata.category(character))
        if refused is not None and not _is_joining(text, position):
            return f"{refused} (U+{ord(character):04X})"
    return None


def _is_joining(text: str, position: int) -> bool:
    """Whether the character is a zero-width joiner or non-joiner between two visible characters that are not ASCII.

    Persian, Indic scripts and joined emoji need them. Elsewhere they are invisible: two names would look the same.
    """
    before, after = text[position - 1 : position], text[position + 1 : position + 2]
    return text[position] in _JOINERS and not {before, after} & _JOINERS and not (before or "a").isascii() and not (after or "a").isascii()


def parse_path_name(text: str, what: str) -> str:
    """As `parse_name`, for namespaces, tables and views: engines put their names into locations, so each must be a legal path there.

    Raises BadRequest for the characters that storage/locations.py refuses, for an empty or dot segment, and beyond NAME_BYTES_MAX.
    """
    parse_name(text, what)
    if _CHARACTERS_REFUSED.search(text):
        raise BadRequest(f"Invalid {what}: must not contain any of * ? $ {{ }} ' \" \\ ` < > # %")
    if not {"", ".", ".."}.isdisjoint(text.split("/")):
        raise BadRequest(f"Invalid {what}: must have no '.', '..' or empty segment")
    if len(text.encode()) > NAME_BYTES_MAX:
        raise BadRequest(f"Invalid {what}: longer than {NAME_BYTES_MAX} bytes")
    return text


def uuid_or_none(text: str) -> UUID | None:
    """The UUID of its canonical 36 characters; None for other forms that Python accepts (braces, `urn:`, other dashes)."""
    try:
        found = UUID(text)
    except ValueError:
        return None
    return found if str(found) == text.lower() else None


def name_key(name: str, *, exact: bool = False) -> str:
    """The form by which names are compared and ordered: NFC, and Unicode case folding unless the warehouse matches exactly."""
    if name.isascii():
        return name if exact else name.lower()
    if len(name) > NAME_CODE_POINTS_MAX:
        # No name is this long, and normalizing takes time quadratic in the number of combining marks.
        return name
    folded = name if exact else unicodedata.normalize("NFC", name).casefold()
    return unicodedata.normalize("NFC", folded)


def dotted_key(names: str) -> str:
    """The name keys of names joined by dots. No combining mark combines with a dot."""
    return ".".join(map(name_key, names.split(".")))


@dataclass(frozen=True, slots=True)
class NamespaceIdentifier:
    """A namespace by its levels, outermost first; shown joined by dots, as in the Java reference."""

    levels: tuple[str, ...]

    @classmethod
    def parse(cls, levels: list[str] | tuple[str, ...]) -> "NamespaceIdentifier":
        if not levels:
            raise BadRequest("Invalid namespace: must have at least one level")
        if len(levels) > NAMESPACE_LEVELS_MAX:
            raise BadRequest(f"Invalid namespace: deeper than {NAMESPACE_LEVELS_MAX} levels")
        return cls(tuple(parse_path_name(level, "namespace level") for level in levels))

    @property
    def parent(self) -> "NamespaceIdentifier | None":
        """The namespace above; None at the top."""
        return NamespaceIdentifier(self.levels[:-1]) if len(self.levels) > 1 else None

    def __str__(self) -> str:
        return ".".join(self.levels)


@dataclass(frozen=True, slots=True)
class TabularIdentifier:
    """A table or a view: its namespace and its name. Tables and views share one name space."""

    namespace: NamespaceIdentifier
    name: str

    @classmethod
    def parse(cls, namespace: NamespaceIdentifier, name: str, what: str = "table name") -> "TabularIdentifier":
        return cls(namespace, parse_path_name(name, what))

    def __str__(self) -> str:
        return f"{self.namespace}.{self.name}"

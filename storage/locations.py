"""Locations in object stores: parsed, checked and compared by whole segments. An invalid location is refused, never repaired."""

import re
import unicodedata
from dataclasses import dataclass, field
from functools import lru_cache

from ..domain.errors import BadRequest

LOCATION_BYTES_MAX = 1_024
"""UTF-8 bytes of what stands below a base, and of a base itself; S3 ends keys there too."""

LOCATION_LENGTH_MAX = 4 * LOCATION_BYTES_MAX
"""Code points of a whole text: a base, a table's location below it, a file below that, and the scheme."""

_LOCATIONS_KNOWN_MAX = 1_024

QUOTED_CHARACTERS_MAX = 200
"""Code points of a refused text that its refusal repeats."""

KINDS = {
    "file": "file",
    "s3": "s3",
    "s3a": "s3",
    "s3n": "s3",
    "gs": "gs",
    "abfs": "abfs",
    "abfss": "abfs",
    "wasbs": "abfs",
}
"""Scheme to the kind of store it names: schemes of one kind are aliases, equal in every comparison."""

_URI = re.compile(r"([a-z][a-z0-9]*):(//([^/]*))?(/.*)?", re.DOTALL)
_AUTHORITIES = {
    "file": re.compile(r""),
    "s3": re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?"),
    "gs": re.compile(r"[a-z0-9]([a-z0-9._-]*[a-z0-9])?"),
    "abfs": re.compile(r"[a-z0-9$]([a-z0-9-]*[a-z0-9])?@[a-z0-9]+(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)+"),
}
_CHARACTERS_REFUSED = re.compile(r"""[*?${}'"\\`<>#]""")
# A query or a fragment begins there for clients that read the text as a URI: not even an operator's base may hold one.
_CHARACTERS_REFUSED_IN_BASE = re.compile(r"[?#]")
_CATEGORIES_REFUSED = {
    "Cc": "a control character",
    "Cf": "an invisible (bidi or zero-width) character",
    "Cs": "an unpaired surrogate",
    "Co": "a private-use character",
    "Zl": "a line separator",
    "Zp": "a paragraph separator",
}


def refuse_location(what: str, rule: str, text: str) -> BadRequest:
    """The refusal of `text` as the field `what`, naming the rule it breaks."""
    quoted = text if len(text) <= QUOTED_CHARACTERS_MAX else text[:QUOTED_CHARACTERS_MAX] + "…"
    return BadRequest(f"Invalid {what}: {rule}: {quoted!r}")


@dataclass(frozen=True, slots=True, eq=False)
class StorageLocation:
    """A folder, file or object. Equal means the same place: aliases of a scheme do not matter, the authority and segments do.

    scheme, authority -- as written; the authority is the bucket, `filesystem@host` for ADLS, empty for files.
    segments -- what stands between the slashes, literally: `%` is never decoded.
    spelled -- the text as it came, without a trailing slash: what documents keep, so that a client sees its own spelling.
    key -- folded text ending in `/`: one place lies in another exactly when the other's key begins its own.
    """

    scheme: str
    authority: str
    segments: tuple[str, ...]
    spelled: str
    key: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        kind = KINDS[self.scheme]
        # ADLS serves one account under two host names: `dfs` to abfs(s), `blob` to wasbs.
        authority = self.authority.replace(".blob.", ".dfs.", 1) if kind == "abfs" else self.authority
        object.__setattr__(self, "key", "/".join((f"{kind}:", "", authority, *self.segments, "")))

    @classmethod
    def parse(cls, text: str, *, imported: bool = False, what: str = "location") -> "StorageLocation":
        """`text` under all rules, none of it trusted. `imported`: `%` may stand in it. `what` opens the refusal's message."""
        location = cls.parse_structure(text, what=what)
        check_characters(location.segments, text, imported=imported, what=what)
        return location

    @classmethod
    def parse_base(cls, text: str, *, what: str) -> "StorageLocation":
        """`text` as an operator's choice: its folders have names already, so only what clients could misread is refused."""
        location = cls.parse_structure(text, what=what)
        if _CHARACTERS_REFUSED_IN_BASE.search(text):
            raise refuse_location(what, "must contain neither '?' nor '#'", text)
        if len(text.encode()) > LOCATION_BYTES_MAX:
            raise refuse_location(what, f"longer than {LOCATION_BYTES_MAX} bytes", text)
        return location

    @classmethod
    def parse_structure(cls, text: str, *, what: str) -> "StorageLocation":
        """`text` taken apart: known scheme, right authority, no empty or dot segment, no character that hides."""
        if len(text) > LOCATION_LENGTH_MAX:
            # Before its characters are looked at one by one: a body of 30 MB may be one text.
            raise refuse_location(what, f"longer than {LOCATION_BYTES_MAX} bytes", text)
        # A table's own location comes by at every commit.
        return _taken_apart_before(text, what) if len(text) <= LOCATION_BYTES_MAX else cls._taken_apart(text, what)

    @classmethod
    def _taken_apart(cls, text: str, what: str) -> "StorageLocation":
        _check_visible(text, what)
        match = _URI.fullmatch(text)
        scheme = match[1] if match else None
        if match is None or scheme not in KINDS:
            raise refuse_location(what, f"must begin with one of {', '.join(f'{scheme}:' for scheme in KINDS)}", text)
        kind, authority, path = KINDS[scheme], match[3] or "", match[4] or ""
        if not _AUTHORITIES[kind].fullmatch(authority):
            rule = "must not have a host: file:/… or file:///…" if kind == "file" else "must name a bucket or filesystem@host after //"
            raise refuse_location(what, rule, text)
        spelled = text.removesuffix("/") if path != "/" else text[: -len(path)]
        segments = tuple(path[1:].removesuffix("/").split("/")) if len(path) > 1 else ()
        for segment in segments:
            if segment in ("", ".", ".."):
                raise refuse_location(what, "must have no '.', '..' or empty segment", text)
        return cls(scheme, authority, segments, spelled)

    def __str__(self) -> str:
        return "/".join((f"{self.scheme}:", "", self.authority, *self.segments))

    def __eq__(self, other: object) -> bool:
        return self.key == other.key if isinstance(other, StorageLocation) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.key)

    def contains(self, other: "StorageLocation") -> bool:
        """Whether `other` is this place or lies below it."""
        return other.key.startswith(self.key)

    def below(self, base: "StorageLocation") -> tuple[str, ...]:
        """The segments below `base`, which must contain this place."""
        assert base.contains(self), "asked for the path below a base that does not contain the location"
        return self.segments[len(base.segments) :]

    def child(self, *segments: str) -> "StorageLocation":
        """The place below by `segments` of our own making: each is one name, no slash in it."""
        for segment in segments:
            if segment in ("", ".", "..") or "/" in segment:
                raise refuse_location("location", "must not have a '.', '..' or empty segment, nor a '/' inside one", segment)
        # A spelling that already ends in a slash can only be the bare root of a file system.
        spelled = "/".join((self.spelled, *segments))
        return StorageLocation(self.scheme, self.authority, self.segments + segments, spelled)

    def claim_key(self, storage_identity: str) -> str:
        """The text the database compares: equal or contained places have keys that begin alike; it ends in `/`.

        `storage_identity` tells apart buckets of one name in different stores (`StorageProfile.storage_identity`).
        """
        return f"{storage_identity}|{self.key}"


_taken_apart_before = lru_cache(_LOCATIONS_KNOWN_MAX)(StorageLocation._taken_apart)


def check_characters(segments: tuple[str, ...], text: str, *, imported: bool, what: str) -> None:
    """Refuse what `segments` may not hold; `text` is the whole location, for the message."""
    below = "/".join(segments)
    if _CHARACTERS_REFUSED.search(below):
        raise refuse_location(what, "must not contain any of * ? $ { } ' \" \\ ` < > #", text)
    if "%" in below and not imported:
        raise refuse_location(what, "must not contain '%'", text)
    if below.isascii():
        if len(below) > LOCATION_BYTES_MAX:
            raise refuse_location(what, f"longer than {LOCATION_BYTES_MAX} bytes", text)
        return
    if len(below.encode()) > LOCATION_BYTES_MAX:
        raise refuse_location(what, f"longer than {LOCATION_BYTES_MAX} bytes", text)
    if not unicodedata.is_normalized("NFC", below):
        raise refuse_location(what, "must be in Unicode normal form NFC", text)


def _check_visible(text: str, what: str) -> None:
    if text.isascii() and text.isprintable():
        return
    for character in text:
        refused = _CATEGORIES_REFUSED.get(unicodedata.category(character))
        if refused:
            raise refuse_location(what, f"must not contain {refused} (U+{ord(character):04X})", text)

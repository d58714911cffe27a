"""Storage locations: parsed, checked and compared by whole segments. An invalid location is refused, never corrected."""

import re
import unicodedata
from dataclasses import dataclass, field
from functools import lru_cache

from ..domain.errors import BadRequest
from ..domain.identifiers import refused_character

LOCATION_BYTES_MAX = 1_024
"""UTF-8 bytes of a base, and of the path below it; also S3's limit on keys."""

LOCATION_LENGTH_MAX = 4 * LOCATION_BYTES_MAX
"""Code points of a whole location: the scheme, a base, a table's location below it, and a file below that."""

_LOCATIONS_CACHED_MAX = 1_024

QUOTED_CHARACTERS_MAX = 200
"""Code points of a refused location that the error message repeats."""

STORE_KIND_BY_SCHEME = {
    "file": "file",
    "s3": "s3",
    "s3a": "s3",
    "s3n": "s3",
    "gs": "gs",
    "abfs": "abfs",
    "abfss": "abfs",
    "wasbs": "abfs",
}
"""The kind of store by scheme. Schemes of one kind are aliases: they compare equal."""

_URI = re.compile(r"([a-z][a-z0-9]*):(//([^/]*))?(/.*)?", re.DOTALL)
_AUTHORITIES = {
    "file": re.compile(r""),
    "s3": re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?"),
    "gs": re.compile(r"[a-z0-9]([a-z0-9._-]*[a-z0-9])?"),
    "abfs": re.compile(r"[a-z0-9$]([a-z0-9-]*[a-z0-9])?@[a-z0-9]+(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)+"),
}
_CHARACTERS_REFUSED = re.compile(r"""[*?${}'"\\`<>#]""")
# Clients that parse the location as a URI would start a query or a fragment here, so even an operator's base must not contain them.
_CHARACTERS_REFUSED_IN_BASE = re.compile(r"[?#]")


def invalid_location_error(field: str, rule: str, text: str) -> BadRequest:
    """The error for an invalid location `text` in `field`, with the rule that it violates."""
    quoted = text if len(text) <= QUOTED_CHARACTERS_MAX else text[:QUOTED_CHARACTERS_MAX] + "…"
    return BadRequest(f"Invalid {field}: {rule}: {quoted!r}")


@dataclass(frozen=True, slots=True, eq=False)
class StorageLocation:
    """The location of a folder, file or object. Two are equal if authority and segments are, and the schemes are aliases.

    scheme, authority -- as written; the authority is the bucket, `filesystem@host` for ADLS, empty for files.
    segments -- the text between slashes, taken literally: `%` is never decoded.
    text -- the original text without a trailing slash. Documents keep it, so that clients see their own spelling.
    key -- the canonical form, ending in `/`: a location is inside another exactly if its key begins with the other's key.
    """

    scheme: str
    authority: str
    segments: tuple[str, ...]
    text: str
    key: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        kind = STORE_KIND_BY_SCHEME[self.scheme]
        # ADLS serves an account under two host names: `dfs` for abfs(s), `blob` for wasbs.
        authority = self.authority.replace(".blob.", ".dfs.", 1) if kind == "abfs" else self.authority
        object.__setattr__(self, "key", "/".join((f"{kind}:", "", authority, *self.segments, "")))

    @classmethod
    def parse(cls, text: str, *, percent_allowed: bool = False, field: str = "location") -> "StorageLocation":
        """Parses an untrusted `text` under all rules. percent_allowed -- it may contain `%`. field -- named in the error message."""
        location = cls.parse_structure(text, field=field)
        check_characters(location.segments, text, percent_allowed=percent_allowed, field=field)
        return location

    @classmethod
    def parse_base(cls, text: str, *, field: str) -> "StorageLocation":
        """Parses a base that an operator chose. Its folders may exist already, so only what clients could misread is refused."""
        location = cls.parse_structure(text, field=field)
        if _CHARACTERS_REFUSED_IN_BASE.search(text):
            raise invalid_location_error(field, "must contain neither '?' nor '#'", text)
        if len(text.encode()) > LOCATION_BYTES_MAX:
            raise invalid_location_error(field, f"longer than {LOCATION_BYTES_MAX} bytes", text)
        return location

    @classmethod
    def parse_structure(cls, text: str, *, field: str) -> "StorageLocation":
        """Parses `text`: a known scheme, a valid authority, no empty or dot segment, no invisible character."""
        if len(text) > LOCATION_LENGTH_MAX:
            # Before its characters are checked one by one: a body of 30 MB may be a single string.
            raise invalid_location_error(field, f"longer than {LOCATION_LENGTH_MAX} characters", text)
        # Cached: a table's own location is parsed at every commit.
        return _parse_cached(text, field) if len(text) <= LOCATION_BYTES_MAX else cls._parse_text(text, field)

    @classmethod
    def _parse_text(cls, text: str, field: str) -> "StorageLocation":
        _check_visible(text, field)
        match = _URI.fullmatch(text)
        scheme = match[1] if match else None
        if match is None or scheme not in STORE_KIND_BY_SCHEME:
            raise invalid_location_error(
                field, f"must begin with one of {', '.join(f'{scheme}:' for scheme in STORE_KIND_BY_SCHEME)}", text
            )
        kind, authority, path = STORE_KIND_BY_SCHEME[scheme], match[3] or "", match[4] or ""
        if not _AUTHORITIES[kind].fullmatch(authority):
            rule = "must not have a host: file:/… or file:///…" if kind == "file" else "must name a bucket or filesystem@host after //"
            raise invalid_location_error(field, rule, text)
        stripped = text.removesuffix("/") if path != "/" else text[: -len(path)]
        segments = tuple(path[1:].removesuffix("/").split("/")) if len(path) > 1 else ()
        for segment in segments:
            if segment in ("", ".", ".."):
                raise invalid_location_error(field, "must have no '.', '..' or empty segment", text)
        return cls(scheme, authority, segments, stripped)

    def __str__(self) -> str:
        return "/".join((f"{self.scheme}:", "", self.authority, *self.segments))

    def __eq__(self, other: object) -> bool:
        return self.key == other.key if isinstance(other, StorageLocation) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.key)

    def contains(self, other: "StorageLocation") -> bool:
        """Whether `other` is this location or below it."""
        return other.key.startswith(self.key)

    def relative_segments(self, base: "StorageLocation") -> tuple[str, ...]:
        """The segments below `base`, which must contain this location."""
        assert base.contains(self), "the base does not contain the location"
        return self.segments[len(base.segments) :]

    def child(self, *segments: str) -> "StorageLocation":
        """The location below this one, by `segments` that the server chose. Raises BadRequest if one is not a plain name."""
        for segment in segments:
            if segment in ("", ".", "..") or "/" in segment:
                raise invalid_location_error("location", "must not have a '.', '..' or empty segment, nor a '/' inside one", segment)
        # Only the root of a file system has a spelling that ends in a slash.
        text = "/".join((self.text, *segments))
        return StorageLocation(self.scheme, self.authority, self.segments + segments, text)

    def claim_key(self, storage_identity: str) -> str:
        """The key that the database compares, ending in `/`. A location inside another has a key that begins with the other's key.

        `storage_identity` distinguishes buckets of the same name in different stores (`StorageProfile.storage_identity`).
        """
        return f"{storage_identity}|{self.key}"


_parse_cached = lru_cache(_LOCATIONS_CACHED_MAX)(StorageLocation._parse_text)


def check_characters(segments: tuple[str, ...], text: str, *, percent_allowed: bool, field: str) -> None:
    """Raises BadRequest if `segments` contain characters that are not permitted. `text` is the whole location, for the message."""
    below = "/".join(segments)
    if _CHARACTERS_REFUSED.search(below):
        raise invalid_location_error(field, "must not contain any of * ? $ { } ' \" \\ ` < > #", text)
    if "%" in below and not percent_allowed:
        raise invalid_location_error(field, "must not contain '%'", text)
    if below.isascii():
        if len(below) > LOCATION_BYTES_MAX:
            raise invalid_location_error(field, f"longer than {LOCATION_BYTES_MAX} bytes", text)
        return
    if len(below.encode()) > LOCATION_BYTES_MAX:
        raise invalid_location_error(field, f"longer than {LOCATION_BYTES_MAX} bytes", text)
    if not unicodedata.is_normalized("NFC", below):
        raise invalid_location_error(field, "must be in Unicode normal form NFC", text)


def _check_visible(text: str, field: str) -> None:
    if (refused := refused_character(text)) is not None:
        raise invalid_location_error(field, f"must not contain {refused}", text)

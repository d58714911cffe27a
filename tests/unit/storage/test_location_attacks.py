"""Spellings that escape, widen or hide a location, for every entry point that accepts a client's location.

The numbers are those of the published faults of this class of product: CVE-2026-42809 (credentials for a location that was never checked),
-42810 (`*` in a path widens a policy), -42811 (`'` in a path rewrites a condition), -42812 (a commit that changes `write.metadata.path`
alone is not checked).
"""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from icecore.domain.errors import BadRequest
from icecore.storage.location_policy import check_document_locations
from icecore.storage.metadata_files import metadata_file_location
from icecore.storage.profiles import parse_storage_profile

S3 = parse_storage_profile(
    {
        "type": "s3",
        "bucket": "bucket",
        "key-prefix": "wh",
        "region": "eu-central-1",
        "allowed-locations": ["s3://imports/a", "s3://bucket/other"],
    }
)
LOCAL = parse_storage_profile({"type": "local", "directory": "/data/wh", "allowed-locations": ["file:/scratch"]})
# Repeated here, so that a property that the code leaves out is noticed.
PATH_PROPERTIES = ("write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path")
TABLE = "s3://bucket/wh/0198c0de-0000-7000-8000-000000000001"

# The violated rule -> spellings below the S3 base (a leading "=" means the whole text).
BELOW_BASE: dict[str, list[str]] = {
    "'.', '..' or empty segment": [
        "..",
        "../victim",
        "../../victim",
        "t/..",
        "t/../../victim",
        "t#/../victim",
        "t/../t",
        "./t",
        "t/./u",
        "t/.",
        ".",
        "t//u",
        "/",
        "/t",
        "//t",
        "t//",
        "t///",
        "t/../",
        "t/metadata/../../victim",
        "../wh",
        "../wh/t",
        "../wh-victim/t",
    ],
    "must not contain '%'": [
        "%2e%2e/victim",
        "%2E%2E/victim",
        "%2e./victim",
        ".%2e/victim",
        "..%2fvictim",
        "..%2Fvictim",
        "%252e%252e/victim",
        "%25252e%25252e/victim",
        "t%2f..%2fvictim",
        "t%5c..%5cvictim",
        "%c0%ae%c0%ae/victim",
        "%c0%af..%c0%afvictim",
        "%e0%80%ae%e0%80%ae/victim",
        "%u002e%u002e/victim",
        "%uff0e%uff0e/victim",
        "t%00",
        "t%0a",
        "t%0d%0aX-Header: y",
        "t%20u",
        "t%2",
        "%",
        "100%",
        "t%3fversionId=1",
        "t%23",
        "t%2a",
    ],
    "any of": [
        # CVE-2026-42810: wildcards and variables of policies.
        "*",
        "*.*",
        "t*",
        "**/t",
        "f?o",
        "???",
        "t/*/metadata",
        "${aws:username}",
        "${*}",
        "${?}",
        "$",
        "${$}",
        "t$",
        "{t}",
        "{a,b}",
        "t}",
        # CVE-2026-42811: quotes and escapes that end a literal in a condition.
        "'",
        "t') || true || ('",
        "t' || resource.name.startsWith('projects/_/buckets/bucket/objects/victim",
        't" || "',
        't"',
        "t\\",
        "..\\victim",
        "t\\..\\..\\victim",
        "\\\\server\\share",
        "t\\u002e\\u002e",
        "`id`",
        "t`",
        "<script>alert(1)</script>",
        "t>",
        "t<",
        "t#fragment",
        "#",
        "t?versionId=1",
        "t?",
        "$(id)",
        '{"a":1}',
    ],
    "a control character": [
        "t\x00",
        "\x00",
        "t\x00.metadata.json",
        "t\n",
        "t\r\nX: y",
        "t\tu",
        "t\x1bu",
        "t\x1fu",
        "t\x7f",
        "t\x08",
        "t\x0bu",
        "t\x0cu",
        "t\x85u",
        "t\x9bu",
        "..\x00/victim",
    ],
    "an invisible": [
        "t\u200b",
        "t\u200c",
        "t\u200d",
        "t\u200e",
        "t\u200f",
        "t\u202au",
        "t\u202bu",
        "t\u202cu",
        "t\u202du",
        "t\u202etxt.exe",
        "t\u2060u",
        "t\u2061u",
        "t\u2066u",
        "t\u2067u",
        "t\u2068u",
        "t\u2069u",
        "\ufefft",
        "t\u00adu",
        "t\u061cu",
        "t\u180eu",
        "t\ufff9u",
        "t\U000e0001",
        "t\U000e0041",
        ".\u200b./victim",
    ],
    "separator": ["t\u2028u", "t\u2029u"],
    "an unpaired surrogate": ["t\ud800", "t\udfff", "\udc2e\udc2e/victim", "t\ud83d/u"],
    "a private-use character": ["t\ue000", "t\uf8ff", "t\U000f0000", "t\U0010fffd"],
    "NFC": ["e\u0301", "t/A\u030a", "\u212b", "\u2126", "\u1100\u1161", "o\u0323\u0302"],
    "longer than 1024 bytes": ["x" * 1025, "x/" * 512 + "xx", "é" * 513, "🙂" * 257],
    "longer than 4096 characters": ["a/" * 5_000 + "a"],
    # CVE-2026-42809, -42812: another object's location, with an ordinary spelling.
    "must be below": [
        "",
        "=s3://bucket",
        "=s3://bucket/",
        "=s3://bucket/wh",
        "=s3://bucket/wh/",
        "=s3://bucket/wh2/t",
        "=s3://bucket/w",
        "=s3://bucket/wha/t",
        "=s3://bucket/WH/t",
        "=s3://bucket/victim/t",
        "=s3://victim/wh/t",
        "=s3://bucket2/wh/t",
        "=s3://bucke/twh/t",
        "=s3://Bucket/wh/t",
        "=s3://bucket.wh/t",
        "=s3://imports/ab/t",
        "=s3://imports",
        "=s3://bucket/othe",
        "=s3://bucket/other2",
        "=gs://bucket/wh/t",
        "=file:/bucket/wh/t",
        "=file:///bucket/wh/t",
        "=abfss://bucket@wh.dfs.core.windows.net/wh/t",
    ],
    "must begin with one of": [
        "=",
        "=/",
        "=t",
        "=wh/t",
        "=/wh/t",
        "=bucket/wh/t",
        "=//bucket/wh/t",
        "=S3://bucket/wh/t",
        "=s3//bucket/wh/t",
        "=s3:bucket/wh/t",
        "=s4://bucket/wh/t",
        "= s3://bucket/wh/t",
        "=http://169.254.169.254/latest/meta-data",
        "=https://bucket.s3.amazonaws.com/wh/t",
        "=hdfs://bucket/wh/t",
        "=jar:file:/bucket/wh/t!/x",
        "=data:,x",
        "=ftp://bucket/wh/t",
        "=javascript:alert(1)",
        "=s3+http://bucket/wh/t",
        "=s3://bucket/wh/t".replace("s3", "ｓ3"),
    ],
    "must name a bucket": [
        "=s3:",
        "=s3:/bucket/wh/t",
        "=s3://",
        "=s3:///wh/t",
        "=s3:///bucket/wh/t",
        "=s3://user@bucket/wh/t",
        "=s3://user:password@bucket/wh/t",
        "=s3://bucket:443/wh/t",
        "=s3://bucket./wh/t",
        "=s3://.bucket/wh/t",
        "=s3://..//wh/t",
        "=s3://bucket?x/wh/t",
        "=s3://bucket#x/wh/t",
        "=s3://bucket%2fwh/t",
        "=s3://bucket*/wh/t",
        "=s3://buc ket/wh/t",
        "=s3://bücket/wh/t",
        "=s3://[::1]/wh/t",
        "=s3://bucket\\wh/t",
        "=s3:// bucket/wh/t",
        "=s3://@bucket/wh/t",
    ],
}
FILES: dict[str, list[str]] = {
    "must be below": [
        "file:/data/wh",
        "file:///data/wh/",
        "file:/data/wh2/t",
        "file:/data/w",
        "file:/etc/passwd",
        "file:/",
        "file:///",
        "file:/scratchy/t",
        "file:/DATA/wh/t",
        "s3://data/wh/t",
    ],
    "'.', '..' or empty segment": [
        "file:/data/wh/../etc",
        "file:///data/wh/t/../../../etc/passwd",
        "file:////data/wh/t",
        "file://///data/wh/t",
        "file:/data//wh/t",
        "file:/data/./wh/t",
        "file:/scratch/../data/victim",
        "file:///data/wh/..",
    ],
    "must not have a host": [
        "file://localhost/data/wh/t",
        "file://data/wh/t",
        "file://127.0.0.1/data/wh/t",
        "file://server/share",
        "file://./data/wh/t",
        "file://~/data/wh/t",
    ],
    "must begin with one of": ["file:data/wh/t", "/data/wh/t", "~/t", "FILE:/data/wh/t", "file\\:/data/wh/t", "C:\\wh\\t"],
    "a control character": ["file:/data/wh/t\x00/../../etc", "file:/data/wh/\n"],
    "any of": ["file:/data/wh/$HOME", "file:/data/wh/t\\..\\..\\etc", "file:/data/wh/`id`", "file:/data/wh/t;$(id)"],
    "must not contain '%'": ["file:/data/wh/%2e%2e/etc", "file:/data/wh/..%2f..%2fetc"],
}

Door = Callable[[Any, str], object]


def _commit(profile: Any, changed: dict[str, Any]) -> None:
    before = {"location": TABLE if profile is S3 else "file:/data/wh/t", "properties": {"owner": "me"}}
    check_document_locations(profile, before, {**before, **changed})


def _property_door(name: str) -> Door:
    return lambda profile, text: _commit(profile, {"properties": {"owner": "me", name: text}})


DOORS: dict[str, Door] = {
    "location of a create": lambda profile, text: profile.parse_permitted(text),
    "metadata-location of a register": lambda profile, text: profile.parse_permitted(text, field="metadata-location"),
    "set-location": lambda profile, text: _commit(profile, {"location": text}),
    "document of a register": lambda profile, text: check_document_locations(profile, None, {"location": text}),
    "manifest-list": lambda profile, text: _commit(profile, {"snapshots": [{"manifest-list": text}]}),
    "v1 manifests": lambda profile, text: _commit(profile, {"snapshots": [{"manifests": [text]}]}),
    "statistics": lambda profile, text: _commit(profile, {"statistics": [{"statistics-path": text}]}),
    "partition statistics": lambda profile, text: _commit(profile, {"partition-statistics": [{"statistics-path": text}]}),
    "metadata log": lambda profile, text: _commit(profile, {"metadata-log": [{"metadata-file": text}]}),
    # CVE-2026-42812: the server itself would write there.
    "metadata file": lambda profile, text: metadata_file_location(profile, text, {}, 0, UUID(int=0)),
    "metadata file by property": lambda profile, text: metadata_file_location(
        profile, TABLE, {"write.metadata.path": text}, 0, UUID(int=0)
    ),
    **{f"property {name}": _property_door(name) for name in PATH_PROPERTIES},
}
# Accepted locations may contain the `%` of an import. These two take it literally, as the last test checks.
LITERAL_PERCENT = {"metadata file", "metadata file by property"}


def _attacks() -> list[Any]:
    base = "s3://bucket/wh/"
    cases = [
        (S3, spelling[1:] if spelling.startswith("=") else base + spelling, rule)
        for rule, spellings in BELOW_BASE.items()
        for spelling in spellings
    ]
    cases += [(LOCAL, text, rule) for rule, texts in FILES.items() for text in texts]
    return [pytest.param(*case, id=f"{_cve(case[2])}{case[1].encode('ascii', 'backslashreplace').decode()[:60]!r}") for case in cases]


def _cve(rule: str) -> str:
    numbers = {"any of": "CVE-2026-42810,42811 ", "must be below": "CVE-2026-42809,42812 "}
    return numbers.get(rule, "")


ATTACKS = _attacks()


@pytest.mark.parametrize(("profile", "text", "rule"), ATTACKS)
def test_no_door_lets_it_in(profile: Any, text: str, rule: str) -> None:
    """Each entry point returns 400 for the violated rule, and repeats no raw control character."""
    for door, enter in DOORS.items():
        if rule == "must not contain '%'" and door in LITERAL_PERCENT:
            continue
        if profile is LOCAL and door == "metadata file by property":
            continue
        with pytest.raises(BadRequest) as refusal:
            enter(profile, text)
        assert rule in refusal.value.message, door
        assert refusal.value.message.isprintable(), door
        assert len(refusal.value.message) < 1_000, door


def test_the_table_is_long_enough() -> None:
    """At least 150 spellings, so that none is removed by accident."""
    assert 150 <= len(ATTACKS)


@pytest.mark.parametrize(
    ("profile", "text"),
    [
        (S3, "s3://bucket/wh/t"),
        (S3, "s3://bucket/wh/t/"),
        (S3, "s3://bucket/wh/a b=c+d"),
        (S3, "s3://bucket/wh/..."),
        (S3, "s3://bucket/wh/.hidden"),
        (S3, "s3://bucket/wh/a..b"),
        (S3, "s3://bucket/wh/" + "x" * 1024),
        (S3, "s3://bucket/wh/名前/é/🙂"),
        (S3, "s3://bucket/wh/a:b@c,d;e&f!g~h(i)[j]^k|l"),
        (S3, "s3://imports/a"),
        (S3, "s3://imports/a/t"),
        (S3, "s3://bucket/other"),
        (LOCAL, "file:/data/wh/t"),
        (LOCAL, "file:///data/wh/t"),
        (LOCAL, "file:/scratch"),
        (LOCAL, "file:/scratch/ns/tbl"),
    ],
)
def test_what_is_right_passes_every_door(profile: Any, text: str) -> None:
    """Negative control: entry points that refuse everything would pass the test above."""
    for door, enter in DOORS.items():
        if profile is LOCAL and door == "metadata file by property":
            continue
        enter(profile, text)


@pytest.mark.parametrize("text", ["s3://bucket/wh/%2e%2e/victim", "s3://bucket/wh/a%20b", "s3://bucket/wh/%", "s3://bucket/wh/..%2fvictim"])
def test_an_imported_percent_sign_is_a_character(text: str) -> None:
    """Even if `%` is permitted it is never decoded: `%2e%2e` is an ordinary name."""
    location = S3.parse_permitted(text, percent_allowed=True)
    assert text == str(location)
    assert S3.base.contains(location)


@pytest.mark.parametrize(
    "text", ["s3://bucket/wh/../victim", "s3://bucket/wh/t*", "s3://bucket/wh/t\x00", "s3://victim/t", "s3://bucket/wh/e\u0301"]
)
def test_an_import_loosens_nothing_but_the_percent_sign(text: str) -> None:
    """All other rules apply to imported documents."""
    with pytest.raises(BadRequest):
        S3.parse_permitted(text, percent_allowed=True)
    with pytest.raises(BadRequest):
        check_document_locations(S3, None, {"location": TABLE, "snapshots": [{"manifest-list": text}]}, percent_allowed=True)

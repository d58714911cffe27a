"""Locations: text, equality, and comparison by whole segments, as Hypothesis properties."""

import string
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icecore.domain.errors import BadRequest
from icecore.storage.locations import LOCATION_BYTES_MAX, LOCATION_LENGTH_MAX, STORE_KIND_BY_SCHEME, StorageLocation

REFUSED = set("*?${}'\"\\`<>#%/")

AUTHORITIES = {
    "file": st.just(""),
    "s3": st.sampled_from(["bucket", "bucket2", "a.b", "x-y"]),
    "gs": st.sampled_from(["bucket", "a_b"]),
    "abfs": st.sampled_from(["fs@account.dfs.core.windows.net", "fs@account.blob.core.windows.net", "fs2@account.dfs.core.windows.net"]),
}


def _wild_segment() -> st.SearchStrategy[str]:
    categories = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Mn", "Mc", "Me")
    alphabet = st.characters(exclude_categories=categories, exclude_characters=sorted(REFUSED)).filter(_is_nfc)
    return st.text(alphabet, min_size=1, max_size=8).filter(lambda segment: segment not in (".", "..") and _is_nfc(segment))


def _is_nfc(text: str) -> bool:
    return unicodedata.is_normalized("NFC", text)


# Few short names, so that drawn locations are often equal, nested or similar.
NEAR_SEGMENTS = st.sampled_from(["a", "ab", "b", "a b", "a=1", "A"])


@st.composite
def texts(draw: st.DrawFn, segments: st.SearchStrategy[str] = NEAR_SEGMENTS) -> str:
    scheme = draw(st.sampled_from(sorted(STORE_KIND_BY_SCHEME)))
    authority = draw(AUTHORITIES[STORE_KIND_BY_SCHEME[scheme]])
    path = "/".join(draw(st.lists(segments, min_size=1, max_size=5)))
    slashes = draw(st.sampled_from([":/", ":///"])) if scheme == "file" else f"://{authority}/"
    return f"{scheme}{slashes}{path}{draw(st.sampled_from(['', '/']))}"


def locations() -> st.SearchStrategy[StorageLocation]:
    return texts().map(StorageLocation.parse)


@given(texts(_wild_segment()) | texts())
def test_text_and_location_are_one_to_one(text: str) -> None:
    """Parsing a location's text results in the same location and text, except for slashes that the rules name."""
    location = StorageLocation.parse(text)
    assert location == StorageLocation.parse(str(location))
    assert str(location) == str(StorageLocation.parse(str(location)))
    assert text.removesuffix("/") == location.text
    assert str(location) in (location.text, location.text.replace("file:/", "file:///", 1))


@given(st.text() | st.text(alphabet=string.printable) | texts(st.text(max_size=6)))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    """Any other text is a BadRequest, and none is corrected."""
    outcome = _parsed_or_refused(text)
    if isinstance(outcome, str):
        assert outcome.startswith("Invalid location: ")
        assert outcome.isprintable()
        return
    assert outcome.text in (text, text.removesuffix("/"))
    assert not REFUSED & set("".join(outcome.segments))
    assert not {"", ".", ".."} & set(outcome.segments)


def _parsed_or_refused(text: str) -> StorageLocation | str:
    try:
        return StorageLocation.parse(text)
    except BadRequest as refusal:
        return refusal.message


@given(locations(), locations())
def test_places_that_contain_each_other_are_one(one: StorageLocation, other: StorageLocation) -> None:
    """Every location contains itself."""
    assert one.contains(one)
    assert (one.contains(other) and other.contains(one)) == (one == other)
    assert one != other or hash(one) == hash(other)


@given(locations(), locations())
def test_containment_is_by_whole_segments(one: StorageLocation, other: StorageLocation) -> None:
    """The prefix of the key and the segments agree, given kind and authority."""
    same_store = STORE_KIND_BY_SCHEME[one.scheme] == STORE_KIND_BY_SCHEME[other.scheme] and _store(one) == _store(other)
    expected = same_store and other.segments[: len(one.segments)] == one.segments
    assert expected == one.contains(other)
    assert expected == other.claim_key("x").startswith(one.claim_key("x"))


def _store(location: StorageLocation) -> str:
    return location.authority.replace(".blob.", ".dfs.")


@given(locations(), locations(), st.sampled_from(["s3", "s3@host:9000"]), st.sampled_from(["s3", "s3@host:9000"]))
def test_claim_keys_of_two_stores_never_meet(one: StorageLocation, other: StorageLocation, first: str, second: str) -> None:
    """Buckets of the same name at two endpoints are different; at one endpoint they are the same."""
    begins = other.claim_key(second).startswith(one.claim_key(first))
    assert (first == second and one.contains(other)) == begins


@given(locations(), st.lists(NEAR_SEGMENTS, min_size=1, max_size=3))
def test_a_child_is_what_its_text_parses_to(location: StorageLocation, segments: list[str]) -> None:
    """The built and the parsed location are equal, including the spelling."""
    child = location.child(*segments)
    parsed = StorageLocation.parse(str(child))
    assert parsed == child
    assert location.contains(child)
    assert not child.contains(location)
    assert tuple(segments) == child.relative_segments(location)
    assert f"{location.text}/{'/'.join(segments)}" == child.text


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("file:/x/y", "file:///x/y"),
        ("file:/x/y/", "file:/x/y"),
        ("s3://b/x", "s3a://b/x"),
        ("s3://b/x", "s3n://b/x"),
        ("abfss://f@a.dfs.core.windows.net/x", "abfs://f@a.dfs.core.windows.net/x"),
        ("abfss://f@a.dfs.core.windows.net/x", "wasbs://f@a.blob.core.windows.net/x"),
    ],
)
def test_spellings_of_one_place_are_equal(one: str, other: str) -> None:
    """Aliases and slashes do not matter. Each location keeps its spelling for documents."""
    assert StorageLocation.parse(one) == StorageLocation.parse(other)
    assert StorageLocation.parse(one).claim_key("i") == StorageLocation.parse(other).claim_key("i")
    assert one.removesuffix("/") == StorageLocation.parse(one).text


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("s3://b/x", "s3://b/X"),
        ("s3://b/x", "gs://b/x"),
        ("s3://b/x", "s3://b/x "),
        ("s3://b/t1", "s3://b/t10"),
        ("abfss://f@a.dfs.core.windows.net/x", "abfss://f@a.dfs.core.chinacloudapi.cn/x"),
    ],
)
def test_different_locations_are_disjoint(one: str, other: str) -> None:
    """Case, spaces and a common beginning make different locations."""
    first, second = StorageLocation.parse(one), StorageLocation.parse(other)
    assert not first.contains(second)
    assert not second.contains(first)


@pytest.mark.parametrize("segment", ["", ".", "..", "a/b", "/"])
def test_a_child_is_one_name(segment: str) -> None:
    """It cannot lead to a parent."""
    with pytest.raises(BadRequest):
        StorageLocation.parse("s3://b/x").child("ok", segment)


def test_the_length_limit_counts_bytes() -> None:
    """The limit is inclusive. Characters of two bytes count twice."""
    StorageLocation.parse("s3://b/" + "é" * (LOCATION_BYTES_MAX // 2))
    with pytest.raises(BadRequest, match="longer than 1024 bytes"):
        StorageLocation.parse("s3://b/" + "é" * (LOCATION_BYTES_MAX // 2) + "e")


def test_a_long_text_is_refused_before_its_characters_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a base and as a client's location: checking 30 MB would block the server for seconds."""
    monkeypatch.setattr("icecore.storage.locations._check_visible", lambda text, field: pytest.fail("it was looked at"))
    for parse in (StorageLocation.parse, StorageLocation.parse_base, StorageLocation.parse_structure):
        with pytest.raises(BadRequest, match=f"longer than {LOCATION_LENGTH_MAX} characters") as refusal:
            parse("s3://b/" + "é" * LOCATION_LENGTH_MAX, field="location")
        assert len(refusal.value.message) < 300


def test_a_file_below_the_longest_locations_is_parsed() -> None:
    """The base, the table's location and the file are each as long as permitted."""
    part = "x" * (LOCATION_BYTES_MAX - 100)
    text = f"s3://b/{part}/{part}/{part}"
    assert text == StorageLocation.parse_structure(text, field="file").text


@pytest.mark.parametrize("text", ["file:/srv/100% {old} 'wh'/e\u0301", "s3://b/$x*"])
def test_a_base_may_hold_what_is_there_already(text: str) -> None:
    """The folder of an operator exists already. The rules apply below it."""
    assert text == StorageLocation.parse_base(text, field="directory").text


@pytest.mark.parametrize(
    "text", ["file:/srv/a?b", "file:/srv/a#b", "file:/srv/../etc", "file:/srv//x", "file:/srv/\u202e", "file:/" + "x" * 1024]
)
def test_a_base_is_not_lawless(text: str) -> None:
    """Traversal, invisible characters, and characters that end a URI's path are refused."""
    with pytest.raises(BadRequest, match="Invalid directory"):
        StorageLocation.parse_base(text, field="directory")

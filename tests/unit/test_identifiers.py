"""Names and identifiers: valid names, and when two names are equal."""

import unicodedata
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from icecore.domain.errors import BadRequest
from icecore.domain.identifiers import (
    NAME_BYTES_MAX,
    NAME_CODE_POINTS_MAX,
    NAMESPACE_LEVELS_MAX,
    NamespaceIdentifier,
    TabularIdentifier,
    dotted_key,
    name_key,
    parse_name,
    parse_path_name,
    uuid_or_none,
)
from icecore.storage.profiles import parse_storage_profile
from icecore.storage.storage_profile import NAMESPACE_LOCATION_BYTES_MAX

COMPOSED, DECOMPOSED = "é", "e\u0301"


@pytest.mark.parametrize(
    "name",
    [
        "orders",
        "Orders 2024",
        "a.b",
        "a/b",
        "snapshots",
        "a..b",
        "a:b",
        COMPOSED,
        "Straße",
        "İstanbul",
        "ıspanak",
        "日本語",
        "مرحبا",
        "שלום",
        "👍",
        "👩🏽",
        "👩\u200d💻",
        "می\u200cخواهم",
        "क\u094d\u200dष",
        "x" * NAME_CODE_POINTS_MAX,
        "ß" * NAME_CODE_POINTS_MAX,
        "名" * NAME_CODE_POINTS_MAX,
    ],
)
def test_a_name_is_taken_as_it_is(name: str) -> None:
    """A name may contain any script with its joiners, spaces, dots and slashes, up to the limit in code points. It is not changed."""
    assert name == parse_name(name, "warehouse name")
    assert name == parse_path_name(name, "table name")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "must not be empty"),
        ("x" * (NAME_CODE_POINTS_MAX + 1), "longer than 255 code points"),
        ("😀" * (NAME_CODE_POINTS_MAX + 1), "longer than 255 code points"),
        ("a\0b", "contains a control character (U+0000)"),
        ("ä\0b", "contains a control character (U+0000)"),
        ("a\x1fb", "contains a control character (U+001F)"),
        ("line\nbreak", "contains a control character (U+000A)"),
        ("\x7f", "contains a control character (U+007F)"),
        ("\x85", "contains a control character (U+0085)"),
        ("a\u200db", "contains an invisible (bidi or zero-width) character (U+200D)"),
        ("👩\u200d", "contains an invisible (bidi or zero-width) character (U+200D)"),
        ("\u200c\u0645", "contains an invisible (bidi or zero-width) character (U+200C)"),
        ("\u0645\u200c\u200c\u06cc", "contains an invisible (bidi or zero-width) character (U+200C)"),
        ("\u0645\u200b\u06cc", "contains an invisible (bidi or zero-width) character (U+200B)"),
        ("zero\u200bwidth", "contains an invisible (bidi or zero-width) character (U+200B)"),
        ("\ufefforders", "contains an invisible (bidi or zero-width) character (U+FEFF)"),
        ("exe.\u202etxt", "contains an invisible (bidi or zero-width) character (U+202E)"),
        ("\u2067מ\u2069", "contains an invisible (bidi or zero-width) character (U+2067)"),
        ("soft\u00adhyphen", "contains an invisible (bidi or zero-width) character (U+00AD)"),
        ("\ud800", "contains an unpaired surrogate (U+D800)"),
        ("a\udfff", "contains an unpaired surrogate (U+DFFF)"),
        ("line\u2028break", "contains a line separator (U+2028)"),
        ("line\u2029break", "contains a paragraph separator (U+2029)"),
        ("\ue000", "contains a private-use character (U+E000)"),
        ("\U0010fffd", "contains a private-use character (U+10FFFD)"),
        (DECOMPOSED, "not in Unicode normal form NFC"),
        ("\u212b", "not in Unicode normal form NFC"),  # The Ångström sign, which normalizes to the letter Å.
        ("\u1100\u1161", "not in Unicode normal form NFC"),  # Decomposed Hangul.
    ],
)
def test_a_name_that_could_mislead_is_refused(name: str, message: str) -> None:
    """Empty, overlong, invisible, bidirectional-control and decomposed names are refused, not corrected."""
    for parse in (parse_name, parse_path_name):
        with pytest.raises(BadRequest) as refusal:
            parse(name, "table name")
        assert f"Invalid table name: {message}" == refusal.value.message


@pytest.mark.parametrize(
    ("name", "message"),
    [
        *((f"a{character}b", "must not contain any of * ? $ { } ' \" \\ ` < > # %") for character in "*?${}'\"\\`<>#%"),
        *((name, "must have no '.', '..' or empty segment") for name in (".", "..", "/", "/a", "a/", "a//b", "a/./b", "a/../b")),
        ("😀" * (NAME_BYTES_MAX // 4 + 1), "longer than 765 bytes"),
    ],
)
def test_a_name_that_cannot_be_in_a_location_is_refused(name: str, message: str) -> None:
    """As the name of a namespace, table or view; a warehouse may have it."""
    assert name == parse_name(name, "warehouse name")
    with pytest.raises(BadRequest) as refusal:
        parse_path_name(name, "table name")
    assert f"Invalid table name: {message}" == refusal.value.message


@given(name=st.text(max_size=12, alphabet=st.characters(max_codepoint=0x2100)))
@example(name="名" * NAME_CODE_POINTS_MAX)
def test_every_allowed_name_makes_a_legal_location(name: str) -> None:
    """Alone, or with a UUID behind it, in a namespace's location that is as long as possible."""
    try:
        parse_path_name(name, "table name")
    except BadRequest:
        return
    profile = parse_storage_profile({"type": "local", "directory": "/data"})
    within = profile.permit_namespace(f"file:///data/{'x' * NAMESPACE_LOCATION_BYTES_MAX}")
    for last in (name, f"{name}-{'0' * 32}"):
        assert within.contains(profile.parse_permitted(f"{within.text}/{last}"))


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Orders", "orders", True),
        (COMPOSED, "É", True),
        (COMPOSED, DECOMPOSED, True),
        ("Straße", "STRASSE", True),
        ("ẞ", "ss", True),
        ("ΣΊΣΥΦΟΣ", "σίσυφος", True),
        ("ﬁle", "FILE", True),
        ("I", "i", True),
        ("I", "ı", False),
        ("İ", "i", False),
        ("İ", "i\u0307", True),
        ("ä", "a", False),
        ("Å", "\u212b", True),
        ("１", "1", False),
    ],
)
def test_names_are_one_by_unicode_case_folding(one: str, other: str, same: bool) -> None:
    """Full case folding without a language: ß is ss, the dotless i differs from i, and compatibility forms are different."""
    assert same is (name_key(one) == name_key(other))


def test_an_exact_warehouse_tells_letter_case_apart() -> None:
    """Exact names are only normalized."""
    assert name_key("Orders", exact=True) != name_key("orders", exact=True)
    assert name_key(COMPOSED, exact=True) == name_key(DECOMPOSED, exact=True)


@given(text=st.text(max_size=300))
@example(text="\u0345\u0301")
@example(text="ᾳ\u0300")
@example(text="ǰ\u0323")
def test_the_key_of_a_key_is_that_key(text: str) -> None:
    """Applying the function twice changes nothing, so that stored keys can be compared with new ones."""
    for exact in (False, True):
        assert name_key(text, exact=exact) == name_key(name_key(text, exact=exact), exact=exact)


def test_longer_text_than_a_name_is_no_work() -> None:
    """Ordering so many combining marks would take minutes. A dotted text consists of several names."""
    marks = "a" + "\u0301\u0316" * 500_000
    assert marks == name_key(marks)
    assert f"{marks}.é.x" == dotted_key(f"{marks}.{DECOMPOSED}.X")
    assert "ä" * 300 + ".b" == dotted_key("ä" * 300 + ".B")


@given(levels=st.lists(st.text(st.characters(exclude_characters="."), max_size=60), min_size=1))
def test_the_key_of_a_dotted_name_is_that_of_its_levels(levels: list[str]) -> None:
    assert ".".join(map(name_key, levels)) == dotted_key(".".join(levels))
    if len(".".join(levels)) < 256:
        assert name_key(".".join(levels)) == dotted_key(".".join(levels))


@given(text=st.text(max_size=40))
@example(text="Ω\u0345")
def test_a_key_does_not_depend_on_the_normal_form(text: str) -> None:
    """Composed and decomposed spellings have the same key."""
    assert name_key(unicodedata.normalize("NFC", text)) == name_key(unicodedata.normalize("NFD", text))


@given(text=st.text(alphabet=st.characters(), max_size=300))
def test_any_text_is_a_name_or_a_bad_request(text: str) -> None:
    """A valid name is normalized, visible and short enough. Only BadRequest is raised."""
    try:
        name = parse_name(text, "table name")
    except BadRequest:
        return
    assert name is text
    assert 0 < len(name) <= NAME_CODE_POINTS_MAX
    assert unicodedata.is_normalized("NFC", name)
    assert not {unicodedata.category(character) for character in name} & {"Cc", "Cf", "Cs", "Co"}
    name.encode()  # No surrogates.


def test_a_namespace_has_levels() -> None:
    """One to sixteen levels, each a valid name, shown joined by dots."""
    nested = NamespaceIdentifier.parse(["sales", "a.b"])
    assert ("sales", "a.b") == nested.levels
    assert "sales.a.b" == str(nested)
    assert nested == NamespaceIdentifier.parse(("sales", "a.b"))
    assert nested != NamespaceIdentifier.parse(["sales", "a", "b"])
    assert NamespaceIdentifier.parse(["sales"]) == nested.parent
    assert NamespaceIdentifier.parse(["sales"]).parent is None
    assert NAMESPACE_LEVELS_MAX == len(NamespaceIdentifier.parse(["x"] * NAMESPACE_LEVELS_MAX).levels)


@pytest.mark.parametrize(
    ("levels", "message"),
    [
        ([], "Invalid namespace: must have at least one level"),
        (["x"] * (NAMESPACE_LEVELS_MAX + 1), "Invalid namespace: deeper than 16 levels"),
        (["sales", ""], "Invalid namespace level: must not be empty"),
        (["sales", "a\x1fb"], "Invalid namespace level: contains a control character (U+001F)"),
    ],
)
def test_a_namespace_that_cannot_be_is_refused(levels: list[str], message: str) -> None:
    """No level, too many levels, or an invalid level."""
    with pytest.raises(BadRequest) as refusal:
        NamespaceIdentifier.parse(levels)
    assert message == refusal.value.message


def test_a_tabular_is_a_name_in_a_namespace() -> None:
    """Shown as in Java. An error says whether it is a table name or a view name."""
    namespace = NamespaceIdentifier.parse(["ns"])
    assert "ns.orders" == str(TabularIdentifier.parse(namespace, "orders"))
    with pytest.raises(BadRequest, match="Invalid view name: must not be empty"):
        TabularIdentifier.parse(namespace, "", "view name")


def test_a_uuid_is_read_in_its_canonical_form_alone() -> None:
    """In either case. Python accepts other forms."""
    text = "01a20352-c37c-76db-9e25-cf6bf1312abc"
    assert UUID(text) == uuid_or_none(text) == uuid_or_none(text.upper())
    others = (f"{{{text}}}", f"urn:uuid:{text}", text.replace("-", ""), f"-{text.replace('-', '', 1)}", text[:-1], "", "x" * 36, "\0" * 36)
    assert [None] * len(others) == [uuid_or_none(other) for other in others]

"""Names in paths: the server decodes what every client library encodes."""

from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from icecore.api.path_parameters import (
    LEVEL_SEPARATOR,
    decode_segment,
    normalize_separator,
    parse_boolean,
    parse_existing_namespace,
    parse_existing_tabular,
    parse_new_namespace,
    parse_parent,
    parse_query,
    parse_warehouse_reference,
)
from icecore.domain.errors import BadRequest, NoSuchNamespace, NoSuchTable, NoSuchView
from icecore.domain.identifiers import NAME_CODE_POINTS_MAX, NAMESPACE_LEVELS_MAX, NamespaceIdentifier, parse_name, parse_path_name


def is_name(text: str) -> bool:
    return _passes(parse_name, text)


def is_path_name(text: str) -> bool:
    return _passes(parse_path_name, text)


def _passes(parse: Callable[[str, str], str], text: str) -> bool:
    try:
        parse(text, "name")
    except BadRequest:
        return False
    return True


names = st.text(st.characters(exclude_categories=["Cc", "Cf", "Cs", "Co"]), min_size=1, max_size=20).filter(is_name)
levels = st.lists(names, min_size=1, max_size=NAMESPACE_LEVELS_MAX)

JAVA_UNESCAPED = "*-._"


def java_encoded(text: str) -> str:
    """java.net.URLEncoder: form encoding, which leaves `*` alone and escapes `~`."""
    return quote_plus(text, safe=JAVA_UNESCAPED).replace("~", "%7E")


@given(levels)
@example(["a b", "a+b", "a%20b", "a/b", "a.b", "ü", "%1F", "~*"])
@example(["a b", "a+b", "a/b", "a.b", "ü", "~"])
def test_a_namespace_in_a_path_survives_every_clients_encoding(namespace: list[str]) -> None:
    """Java encodes each level and joins by `%1F`; PyIceberg quotes the joined text."""
    joined = LEVEL_SEPARATOR.join(namespace)
    for encoded in (
        "%1F".join(map(java_encoded, namespace)),
        quote(joined, safe=""),
        quote_plus(joined, safe=""),
        quote(joined, safe="").replace("%1F", "%1f"),
    ):
        assert NamespaceIdentifier(tuple(namespace)) == parse_existing_namespace(encoded)
        if all(map(is_path_name, namespace)):
            assert NamespaceIdentifier(tuple(namespace)) == parse_new_namespace(encoded)


@given(levels)
def test_the_plain_reading_of_a_parent_comes_first(namespace: list[str]) -> None:
    """Java's form, encoded once, is always the first reading."""
    query = parse_query("parent=" + java_encoded(LEVEL_SEPARATOR.join(namespace)))
    assert tuple(namespace) == parse_parent(query["parent"])[0].levels


@given(levels)
def test_a_parent_encoded_twice_is_among_the_readings(namespace: list[str]) -> None:
    """PyIceberg quotes levels that its HTTP library quotes again; Trino once quoted the separator twice."""
    pyiceberg = quote_plus(LEVEL_SEPARATOR.join(quote(level, safe="") for level in namespace))
    trino = quote_plus(quote("\x1f".join(namespace), safe=""))
    for encoded in (pyiceberg, trino):
        assert tuple(namespace) in [reading.levels for reading in parse_parent(parse_query("parent=" + encoded)["parent"])]


def test_different_spellings_stay_different_names() -> None:
    """A level separator, a dot, an encoded dot and an encoded slash: only the two dots are the same."""
    assert ("a", "b") == parse_existing_namespace("a%1Fb").levels
    assert ("a.b",) == parse_existing_namespace("a.b").levels
    assert ("a.b",) == parse_existing_namespace("a%2Eb").levels
    assert ("a/b",) == parse_existing_namespace("a%2Fb").levels
    assert ("a b",) == parse_existing_namespace("a+b").levels == parse_existing_namespace("a%20b").levels
    assert ("a+b",) == parse_existing_namespace("a%2Bb").levels


@pytest.mark.parametrize(
    ("segment", "message"),
    [
        ("a%", "Invalid name: a percent sign must be followed by two hexadecimal digits"),
        ("%4", "Invalid name: a percent sign must be followed by two hexadecimal digits"),
        ("%zz", "Invalid name: a percent sign must be followed by two hexadecimal digits"),
        ("%+1", "Invalid name: a percent sign must be followed by two hexadecimal digits"),
        ("a%41%4", "Invalid name: a percent sign must be followed by two hexadecimal digits"),
        ("%FF", "Invalid name: not UTF-8"),
        ("%C0%AF", "Invalid name: not UTF-8"),
        ("%ED%A0%80", "Invalid name: not UTF-8"),
    ],
)
def test_a_broken_escape_is_refused(segment: str, message: str) -> None:
    """Overlong forms and surrogates are not UTF-8."""
    with pytest.raises(BadRequest) as refusal:
        decode_segment(segment, "name")
    assert message == refusal.value.message


@pytest.mark.parametrize(
    "segment", ["%00", "a%0Ab", "a%0D%0Ab", "%7F", "%C2%85", "a%1F%1Fb", "%1F", "a%1F", "x" * (NAME_CODE_POINTS_MAX + 1)]
)
def test_nothing_has_a_malformed_name(segment: str) -> None:
    """NUL and other control characters, empty levels, and a name that is too long. The message contains no control character."""
    for refused, seek in (
        (NoSuchNamespace, lambda: parse_existing_namespace(segment)),
        (NoSuchTable, lambda: parse_existing_tabular(segment, "t", "table")),
        (NoSuchView, lambda: parse_existing_tabular("a", "%1F" + segment, "view")),
    ):
        with pytest.raises(refused) as refusal:
            seek()
        assert refusal.value.message.isprintable()


@pytest.mark.parametrize(
    "name",
    ["x" * NAME_CODE_POINTS_MAX, "e\u0301", "a\u202eb", "a\u200bb", "\ue000", "*", "..", "s1\u200d", "branch_b1"],
)
def test_odd_names_may_be_asked_for(name: str) -> None:
    """The query answers that no such object exists."""
    assert name == parse_existing_tabular("s1%1Ft", quote(name, safe=""), "table").name


@pytest.mark.parametrize("name", ["x" * (NAME_CODE_POINTS_MAX + 1), "e\u0301", "a\u202eb", "a\u200bb", "\ue000"])
def test_odd_names_may_not_be_commanded(name: str) -> None:
    """A command could create an object with that name."""
    with pytest.raises(BadRequest):
        parse_new_namespace(quote(name, safe=""))


def test_a_namespace_of_a_command_is_bounded_in_depth() -> None:
    """Seventeen levels are one too many."""
    with pytest.raises(BadRequest):
        parse_new_namespace("%1F".join(["x"] * (NAMESPACE_LEVELS_MAX + 1)))


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        ("demo", "demo"),
        ("my warehouse", "my warehouse"),
        ("demo@17", "demo@17"),
        ("demo@2026-01-01T10:00:00Z", "demo@2026-01-01T10:00:00Z"),
        ("demo@2026-01-01T10:00:00+02:00", "demo@2026-01-01T10:00:00+02:00"),
        ("demo@2026-01-01T10:00:00 02:00", "demo@2026-01-01T10:00:00+02:00"),
        ("demo@2026-01-01T10:00:00.123456 02:00", "demo@2026-01-01T10:00:00.123456+02:00"),
        ("demo@2026-01-01 10:00:00 02:00", "demo@2026-01-01 10:00:00+02:00"),
        ("demo@2026-01-01 10:00", "demo@2026-01-01 10:00"),
        ("demo@2026-01-01 10:00:00Z", "demo@2026-01-01 10:00:00Z"),
    ],
)
def test_the_plus_of_a_time_zone_is_put_back(text: str, reference: str) -> None:
    """Form decoding turns it into a space. The space between date and time stays."""
    assert reference == parse_warehouse_reference(text)


@pytest.mark.parametrize(("raw", "expected"), [("", {}), ("pageToken=", {"pageToken": ""}), ("a=1&a=2&b", {"a": "2", "b": ""})])
def test_queries_keep_empty_parameters(raw: str, expected: dict[str, str]) -> None:
    """Java sends `pageToken=` for the first page."""
    assert expected == parse_query(raw)


@pytest.mark.parametrize("raw", ["a=%FF", "&".join("abc" for _ in range(101))])
def test_queries_that_cannot_be_read_are_refused(raw: str) -> None:
    """Bytes that are not UTF-8, and no end of parameters."""
    with pytest.raises(BadRequest):
        parse_query(raw)


@pytest.mark.parametrize(("text", "expected"), [("true", True), ("True", True), ("TRUE", True), ("false", False), ("False", False)])
def test_booleans_in_any_case(text: str, expected: bool) -> None:
    """PyIceberg sends Python's spelling."""
    assert expected is parse_boolean(text, "purgeRequested")


@pytest.mark.parametrize("text", ["", "1", "yes", "ja"])
def test_other_booleans_are_refused(text: str) -> None:
    """A parameter that decides about deleting files is not guessed."""
    with pytest.raises(BadRequest, match="Invalid parameter 'purgeRequested': must be true or false"):
        parse_boolean(text, "purgeRequested")


@pytest.mark.parametrize("segment", ["a.b", "a%2Eb", "a%2eb", "a%1Fb"])
def test_levels_are_split_at_the_advertised_separator_too(segment: str) -> None:
    """As clients write it, encoded or not; the specification's separator stays valid."""
    assert ("a", "b") == parse_new_namespace(normalize_separator(segment, ".")).levels

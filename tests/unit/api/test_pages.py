"""Page tokens are valid only for their own listing."""

import base64

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icecore.api.limits import ApiLimits
from icecore.api.paging import listing_digest, page_token, parse_page
from icecore.domain.errors import BadRequest
from icecore.queries.results import PageRequest

LIMITS = ApiLimits(page_size_default=10, page_size_max=20)
LISTING = listing_digest("listTables", "warehouse", "a", "b")


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=300))
def test_a_token_gives_back_its_name_key(after: str) -> None:
    """For any key, the token needs no encoding in a URL."""
    token = page_token(LISTING, after)
    assert token.replace("-", "").replace("_", "").isalnum()
    assert PageRequest(after=after, size=10) == parse_page({"pageToken": token}, LISTING, LIMITS)


@pytest.mark.parametrize(
    "other",
    [
        listing_digest("listViews", "warehouse", "a", "b"),
        listing_digest("listTables", "warehouse@7", "a", "b"),
        listing_digest("listTables", "warehouse", "a"),
        listing_digest("listTables", "warehouse", "ab"),
        listing_digest("listTables", "warehousea", "b"),
    ],
)
def test_a_token_of_another_listing_is_refused(other: str) -> None:
    """Of another kind, position or parent."""
    with pytest.raises(BadRequest, match="Invalid parameter 'pageToken': issued for another listing"):
        parse_page({"pageToken": page_token(LISTING, "x")}, other, LIMITS)


def encoded(document: object) -> str:
    return base64.urlsafe_b64encode(orjson.dumps(document)).rstrip(b"=").decode()


@pytest.mark.parametrize(
    "token",
    [
        "x",
        "1",
        "....",
        "ü",
        "a b",
        encoded({}),
        encoded([LISTING]),
        encoded([LISTING, 1]),
        encoded([LISTING, ""]),
        encoded([LISTING, "a\0"]),
        encoded([LISTING, "a" * 766]),
        encoded([LISTING, "a" * 5_000]),
        encoded([LISTING, "a", "b"]),
        encoded(None),
        base64.urlsafe_b64encode(b"\xff\xfe").decode(),
    ],
)
def test_garbage_is_no_token(token: str) -> None:
    """400, before any query."""
    with pytest.raises(BadRequest, match="Invalid parameter 'pageToken': not a token of this catalog"):
        parse_page({"pageToken": token}, LISTING, LIMITS)


@pytest.mark.parametrize(
    ("query", "page"),
    [
        ({}, PageRequest(after=None, size=None)),
        ({"pageToken": ""}, PageRequest(after=None, size=10)),
        ({"pageToken": "", "pageSize": ""}, PageRequest(after=None, size=10)),
        ({"pageSize": "3"}, PageRequest()),
        ({"pageToken": "", "pageSize": "3"}, PageRequest(after=None, size=3)),
        ({"pageToken": "", "pageSize": "20"}, PageRequest(after=None, size=20)),
        ({"pageToken": "", "pageSize": "21"}, PageRequest(after=None, size=20)),
        ({"pageToken": "", "pageSize": "9999999999999999999"}, PageRequest(after=None, size=20)),
    ],
)
def test_page_parameters(query: dict[str, str], page: PageRequest) -> None:
    """Without parameters, everything. A size over the limit is the limit."""
    assert page == parse_page(query, LISTING, LIMITS)


@pytest.mark.parametrize("size", ["0", "-1", "-9999", "x", "1.5", "٣", "--3", "1" * 5_000, " 1", "1e3", "null"])
def test_sizes_that_are_no_sizes_are_refused(size: str) -> None:
    """Zero, negative, not a number, or too large."""
    with pytest.raises(BadRequest, match="Invalid parameter 'pageSize': must be a positive whole number"):
        parse_page({"pageToken": "", "pageSize": size}, LISTING, LIMITS)

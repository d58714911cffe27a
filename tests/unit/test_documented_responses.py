"""What is not as the OpenAPI document says would be found in the responses that tests receive."""

import pytest

from tests.fixtures.documented_responses import check_documented

SEARCH = "/management/v1/warehouse/019ab5f0-0000-7000-8000-000000000000/search-tabular"
FOUND = b'{"tabulars": [{"namespace-name": ["n"], "tabular-name": "t", "distance": 0.5, "tabular-id": {"id": "%s", "type": "table"}}]}'
ID = b"019ab5f0-0000-7000-8000-000000000000"


def test_a_response_as_documented_passes() -> None:
    """With or without a query; errors and other APIs are not checked."""
    check_documented("POST", SEARCH, 200, "application/json", FOUND % ID)
    check_documented("POST", f"{SEARCH}?x=1", 200, "application/json; charset=utf-8", FOUND % ID)
    check_documented("POST", SEARCH, 404, "application/json", b"{}")
    check_documented("GET", "/catalog/v1/config", 200, "application/json", b"{}")


@pytest.mark.parametrize(
    ("status", "content_type", "body"),
    [
        (201, "application/json", FOUND % ID),
        (204, "", b""),
        (200, "text/plain", FOUND % ID),
        (200, "application/json", b"{}"),
        (200, "application/json", FOUND % b"no id"),
        (200, "application/json", (FOUND % ID).replace(b"0.5", b"1")),
        (200, "application/json", (FOUND % ID).replace(b'"table"', b'"folder"')),
        (200, "application/json", (FOUND % ID).replace(b'"tabular-name": "t", ', b"")),
    ],
)
def test_another_one_is_found(status: int, content_type: str, body: bytes) -> None:
    """A status, a type of content, a member, a value or a format that is not documented."""
    with pytest.raises(AssertionError, match="searchTabular"):
        check_documented("POST", SEARCH, status, content_type, body)

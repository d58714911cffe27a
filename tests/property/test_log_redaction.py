"""Texts without a colon, an equals sign or a space are not searched for secrets, so every pattern must contain one of these."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icecore import logs

PATTERNS = {name: pattern for name, pattern in vars(logs).items() if isinstance(pattern, re.Pattern)}
SOUGHT = ("_USER_INFORMATION", "_USER", "_KEY_VALUE", "_BEARER", "_HEADER")


def test_every_pattern_is_known_here() -> None:
    """Fails for a new pattern, which may need another character."""
    assert {*SOUGHT, "_RUN", "_BETWEEN_NAME_AND_VALUE"} == {*PATTERNS} - {"SECRET_NAME"}


@pytest.mark.parametrize("name", SOUGHT)
@given(data=st.data())
def test_no_secret_is_without_what_is_looked_for_first(name: str, data: st.DataObject) -> None:
    """A text drawn from each of the patterns."""
    text = data.draw(st.from_regex(PATTERNS[name]))
    assert PATTERNS["_BETWEEN_NAME_AND_VALUE"].search(text)

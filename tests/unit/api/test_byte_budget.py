"""The bytes that a server holds for clients: contents are counted once and released."""

import pytest

from icecore.api.byte_budget import BudgetExhausted, BudgetReservation, ByteBudget, LargeResponses


def test_a_content_counts_once_until_its_last_release() -> None:
    """Responses from a cache are one object for all clients. A share is released once."""
    budget = ByteBudget("Responses", 100)
    content = b"x" * 60
    first, second = budget.reserve_content(content), budget.reserve_content(content)
    assert 60 == budget.reserved_bytes
    first.release()
    first.release()
    assert 60 == budget.reserved_bytes
    with pytest.raises(BudgetExhausted):
        budget.reserve_content(b"y" * 60)
    second.release()
    assert 0 == budget.reserved_bytes


def test_several_contents_are_held_together_or_not_at_all() -> None:
    """A single holder may exceed the budget. Contents that another holder has need no further memory."""
    budget = ByteBudget("Responses", 100)
    contents = [b"x" * 60, b"y" * 60]
    reserved_bytes = budget.reserve_contents(contents)
    assert (120, 0) == (budget.reserved_bytes, budget.size_of(contents))
    shared = budget.reserve_contents(contents[:1])
    with pytest.raises(BudgetExhausted):
        budget.reserve_contents([contents[1], b"z"])
    for each in [*reserved_bytes, *shared]:
        each.release()
    assert 0 == budget.reserved_bytes


def test_one_holder_alone_may_have_more() -> None:
    """Every permitted size is accepted eventually, but not beside another holder."""
    budget = ByteBudget("Bodies", 100)
    large, other = BudgetReservation(budget), BudgetReservation(budget)
    large.reserve(90)
    large.reserve(90)
    with pytest.raises(BudgetExhausted):
        other.reserve(1)
    large.release()
    large.release()
    assert 0 == budget.reserved_bytes


def test_room_is_expected_as_large_as_the_last_response_was() -> None:
    """No memory if the last response was small."""
    budget = ByteBudget("Responses", 1_000_000)
    responses = LargeResponses(budget)
    responses.note("/a", 200_000)
    reserved_bytes = responses.expect("/a")
    assert reserved_bytes is not None
    assert 200_000 == budget.reserved_bytes
    reserved_bytes.release()
    responses.note("/a", 10)
    assert responses.expect("/a") is None

"""The bytes that one server holds for clients: what is counted once, and what is given back."""

import pytest

from icecore.api.byte_budget import BudgetUsedUp, ByteBudget, HeldBytes, LargeAnswers


def test_a_content_counts_once_until_its_last_holder_lets_go() -> None:
    """Answers from a cache are one object, however many clients take it; a share is given back once."""
    budget = ByteBudget("Answers", 100)
    content = b"x" * 60
    first, second = budget.hold(content), budget.hold(content)
    assert 60 == budget.held
    first.release()
    first.release()
    assert 60 == budget.held
    with pytest.raises(BudgetUsedUp):
        budget.hold(b"y" * 60)
    second.release()
    assert 0 == budget.held


def test_several_contents_are_held_together_or_not_at_all() -> None:
    """Alone they may have more than there is; what another holds already needs no room."""
    budget = ByteBudget("Answers", 100)
    contents = [b"x" * 60, b"y" * 60]
    held = budget.hold_all(contents)
    assert (120, 0) == (budget.held, budget.size_of(contents))
    shared = budget.hold_all(contents[:1])
    with pytest.raises(BudgetUsedUp):
        budget.hold_all([contents[1], b"z"])
    for each in [*held, *shared]:
        each.release()
    assert 0 == budget.held


def test_one_holder_alone_may_have_more() -> None:
    """No permitted size is refused for ever; beside another it is."""
    budget = ByteBudget("Bodies", 100)
    large, other = HeldBytes(budget), HeldBytes(budget)
    large.take(90)
    large.take(90)
    with pytest.raises(BudgetUsedUp):
        other.take(1)
    large.release()
    large.release()
    assert 0 == budget.held


def test_room_is_expected_as_large_as_the_last_answer_was() -> None:
    """And none where the last one was small."""
    budget = ByteBudget("Answers", 1_000_000)
    answers = LargeAnswers(budget)
    answers.note("/a", 200_000)
    held = answers.expect("/a")
    assert held is not None
    assert 200_000 == budget.held
    held.release()
    answers.note("/a", 10)
    assert answers.expect("/a") is None

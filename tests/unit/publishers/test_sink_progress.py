"""How often a sink's row is updated: after every batch, unless the sink stores its position itself."""

from typing import Any, cast

import pytest

from icecore.publishers.checkpoints import Leadership
from icecore.publishers.publisher import _Progress


class Row:
    """A substitute for the leader's row."""

    def __init__(self) -> None:
        self.position = self.broker_sequence = 0
        self.moved: list[int] = []

    async def recovered(self) -> None: ...

    async def move(self, position: int, broker_sequence: int) -> None:
        self.position, self.broker_sequence = position, broker_sequence
        self.moved.append(position)


@pytest.mark.parametrize(("stores_position", "moved"), [(True, [2]), (False, [1, 2])])
async def test_a_row_moves_behind_every_batch_of_a_sink_that_does_not_store_its_position(stores_position: bool, moved: list[int]) -> None:
    """For a sink that does, a second later or at the end of the log."""
    row = Row()
    progress = _Progress(cast("Leadership", cast("Any", row)), stores_position)
    await progress.up_to(1)
    await progress.up_to(2)
    await progress.now()
    assert moved == row.moved

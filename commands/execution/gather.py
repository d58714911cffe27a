"""Runs several tasks at once and waits for all of them, even if one fails."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any


async def gather_errors(works: Sequence[Coroutine[Any, Any, None]]) -> list[BaseException | None]:
    """What each failed with, in their order; None for what went well."""
    if len(works) == 1:
        # By far the most common, and then a task would cost more than it helps.
        try:
            await works[0]
        except Exception as error:
            return [error]
        return [None]
    return await asyncio.gather(*works, return_exceptions=True)

"""Runs several tasks at once and waits for all of them, even if one fails."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any


async def gather_errors(coroutines: Sequence[Coroutine[Any, Any, None]]) -> list[BaseException | None]:
    """The errors of the coroutines, in order; None for each that succeeded."""
    if len(coroutines) == 1:
        # By far the most common case, in which a task would only cost time.
        try:
            await coroutines[0]
        except Exception as error:
            return [error]
        return [None]
    return await asyncio.gather(*coroutines, return_exceptions=True)

"""What the edge needs of the rest: the composition root hands over one object with these attributes."""

from typing import Any, Protocol

from aiohttp import web

from api.limits import ApiLimits
from commands.execution.executor import CommandExecutor
from queries.read_side import ReadSide


class Catalog(Protocol):
    """The write side, the read side, the limits, and a coroutine that says how the process is."""

    @property
    def write(self) -> CommandExecutor: ...

    @property
    def reads(self) -> ReadSide: ...

    @property
    def limits(self) -> ApiLimits: ...

    async def health(self) -> dict[str, Any]:
        """A JSON object; its `status` is `ok` where the process can serve."""
        ...


CATALOG: web.AppKey[Catalog] = web.AppKey("catalog")

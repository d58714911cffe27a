"""What the API needs of the catalog: the composition root passes one object with these attributes."""

from collections.abc import Mapping
from typing import Any, Protocol

from aiohttp import web

from ..access.authentication import Authenticator
from ..access.backends import Backends
from ..commands.execution.executor import CommandExecutor
from ..queries.executor import QueryExecutor
from ..storage.permitted_profiles import PermittedProfiles
from .history.event_source import EventSource
from .limits import ApiLimits


class Catalog(Protocol):
    """What runs commands and queries, what holds the data, the log's events, the limits, and coroutines that say how the process is.

    event_schemas -- the JSON Schemas of events, by CloudEvent type. permitted_profiles -- of warehouses that clients create.
    """

    @property
    def backends(self) -> Backends: ...

    @property
    def authenticator(self) -> Authenticator: ...

    @property
    def commands(self) -> CommandExecutor: ...

    @property
    def queries(self) -> QueryExecutor: ...

    @property
    def events(self) -> EventSource: ...

    @property
    def event_schemas(self) -> Mapping[str, dict[str, Any]]: ...

    @property
    def permitted_profiles(self) -> PermittedProfiles: ...

    @property
    def limits(self) -> ApiLimits: ...

    async def health(self) -> dict[str, Any]:
        """A JSON object; its `status` is `ok` where the process can serve."""
        ...

    async def unready_reason(self) -> str | None:
        """Why no requests should be sent to this process; None where they should."""
        ...


CATALOG: web.AppKey[Catalog] = web.AppKey("catalog")

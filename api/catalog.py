"""The interface of the catalog to the API. The composition root passes one object with these attributes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from aiohttp import web

from ..access.authentication import Authenticator
from ..access.backends import Backends
from ..access.endpoint_statistics import EndpointStatistics
from ..commands.execution.executor import CommandExecutor
from ..queries.executor import QueryExecutor
from ..storage.permitted_profiles import PermittedProfiles
from .history.event_source import EventSource
from .limits import ApiLimits


@dataclass(frozen=True, slots=True)
class About:
    """What a server tells of itself: its version, and in which clouds warehouses may use its own identity."""

    version: str
    aws_system_identities: bool
    azure_system_identities: bool
    gcp_system_identities: bool


class Catalog(Protocol):
    """Commands, queries, connections and stores, the log's events, limits, and functions that report the health of the process.

    event_schemas -- the JSON Schemas of events, by CloudEvent type. permitted_profiles -- the storage profiles that clients may create
    warehouses with. read_only -- mutations are refused. default_project_enabled -- a request that names no project is in the default one.
    """

    @property
    def read_only(self) -> bool: ...

    @property
    def about(self) -> About: ...

    @property
    def default_project_enabled(self) -> bool: ...

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
    def endpoint_statistics(self) -> EndpointStatistics: ...

    @property
    def limits(self) -> ApiLimits: ...

    async def health(self) -> dict[str, Any]:
        """A JSON object. Its `status` is `ok` if the process can serve."""
        ...

    async def unready_reason(self) -> str | None:
        """Why no requests should be sent to this process; None if they should."""
        ...


CATALOG: web.AppKey[Catalog] = web.AppKey("catalog")

"""Authorization: one call that every command and query makes, with the ids of its resources.

Names are resolved first, so that permissions do not depend on names. Only the replay of an Idempotency-Key's response is not
authorized again: the same principal has received it before.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol
from uuid import UUID

from .request_context import RequestContext

ResourceKind = Literal["server", "project", "warehouse", "namespace", "table", "view", "proposal"]


@dataclass(frozen=True, slots=True)
class Resource:
    """An object that a request reads or changes. `id` is Icecore's own and does not change on a rename."""

    kind: ResourceKind
    id: UUID


SERVER = Resource("server", UUID(int=0))
"""The resource of operations outside every project, such as reading the whole log."""


class Authorizer(Protocol):
    """Decides by `context.principal` and `context.operation`."""

    async def authorize(self, context: RequestContext, resources: Sequence[Resource]) -> None:
        """Raises Forbidden unless the principal may do this to every resource.

        resources -- the objects that are read or changed; for a creation, the namespace, warehouse or project that will contain it.
        """


class AllowAll:
    """Permits everything to every principal. Used until there are grants."""

    async def authorize(self, context: RequestContext, resources: Sequence[Resource]) -> None:
        """Never raises."""

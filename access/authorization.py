"""Authorization: the one call that every command and query makes, with ids.

Names are resolved before it, so that permissions do not depend on names. Only a repeated answer of an Idempotency-Key is not
authorized again: the same principal received it before.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol
from uuid import UUID

from .request_context import RequestContext

ResourceKind = Literal["server", "project", "warehouse", "namespace", "table", "view", "proposal"]


@dataclass(frozen=True, slots=True)
class Resource:
    """What a request is about. `id` is Icecore's own, the same through renames."""

    kind: ResourceKind
    id: UUID


SERVER = Resource("server", UUID(int=0))
"""What belongs to no project: the log as a whole."""


class Authorizer(Protocol):
    """Decides by `context.principal` and `context.operation`."""

    async def authorize(self, context: RequestContext, resources: Sequence[Resource]) -> None:
        """Raises Forbidden where the principal may not do this to each of the resources.

        resources -- what is read or changed; of what is created, the namespace, warehouse or project it is created in.
        """


class AllowAll:
    """Everybody may do everything: there are no grants yet."""

    async def authorize(self, context: RequestContext, resources: Sequence[Resource]) -> None:
        """Permits it."""

"""When a drop that is decided now expires."""

from dataclasses import dataclass

from ...access.warehouse import Warehouse
from .executor import CommandExecutor


@dataclass(frozen=True, slots=True)
class DropExpiry:
    """The expiry of a drop, by the later of this process's clock and Postgres's, so that neither makes it expire early if it is behind.

    postgres_ahead_ms -- how far Postgres's clock is ahead of this process's; 0 if it is behind.
    """

    executor: CommandExecutor
    warehouse: Warehouse
    force: bool
    postgres_ahead_ms: int

    @classmethod
    async def read(cls, executor: CommandExecutor, warehouse: Warehouse, *, force: bool) -> "DropExpiry":
        """Compares the clocks if the drop will be a soft deletion."""
        if force or warehouse.delete_profile.expiration_seconds is None:
            return cls(executor, warehouse, force, 0)
        async with executor.connection() as connection:
            postgres_ahead_ms = await executor.database_now_ms(connection) - executor.now_ms()
        return cls(executor, warehouse, force, max(postgres_ahead_ms, 0))

    def at_ms(self) -> int | None:
        """The expiry of a drop at this moment, in milliseconds since 1970, UTC; None: the drop is final."""
        if self.force:
            return None
        return self.warehouse.delete_profile.expires_at_ms(self.executor.now_ms() + self.postgres_ahead_ms)

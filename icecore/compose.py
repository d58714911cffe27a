"""The composition root: the only module that knows every implementation. It opens them in order and closes them in reverse."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import psycopg
import structlog
from aiohttp import web

from .access.authentication import AnonymousAuthenticator, Authenticator
from .access.authorization import AllowAll, Authorizer
from .access.backends import Backends
from .access.endpoint_statistics import EndpointStatistics
from .api.catalog import About
from .api.limits import ApiLimits
from .api.origins import OriginRules
from .api.proxies import TrustedProxies
from .api.server import build_app
from .approval.hooks import ApprovalHooks
from .commands.execution import idempotency
from .commands.execution.committer import Committer
from .commands.execution.executor import CommandExecutor
from .commands.proposals.expire_proposals import ExpiryJob
from .commands.tables.close_removed_parts import ClosePartsJob
from .commands.tables.delete_old_metadata_files import OldMetadataFilesJob
from .commands.tables.metrics_reports import MetricsReports
from .commands.tables.purge_tables import PurgeJob
from .commands.tabulars.expire_soft_deleted import ExpireSoftDeletedJob
from .database.connections import ConnectionPool
from .database.outage_log import OutageLog
from .domain.client_errors import client_error_text
from .domain.errors import CatalogError
from .hooks import opened_hooks
from .log.head import is_read_only, log_head
from .migrations.apply import missing_migrations
from .publishers.event_schemas import event_schemas
from .publishers.pull import LogEventSource
from .queries.executor import QueryExecutor
from .secret_keys import secret_store
from .security.secrets import SecretStore
from .settings import Settings
from .storage.object_store import ObjectStores
from .storage.permitted_profiles import PermittedProfiles
from .version import icecore_version

_log = structlog.get_logger("icecore.compose")

_FORGET_KEYS_EVERY_SECONDS = 600
SESSIONS_MAX = 2
"""Connections beside a pooler for locks of requests. A process creates one warehouse at a time."""


@dataclass(slots=True)
class Application:
    """The parts of one running catalog."""

    backends: Backends
    authenticator: Authenticator
    commands: CommandExecutor
    queries: QueryExecutor
    limits: ApiLimits
    purge: PurgeJob
    old_files: OldMetadataFilesJob
    parts: ClosePartsJob
    expiry: ExpiryJob
    soft_deletion: ExpireSoftDeletedJob
    events: LogEventSource
    dsn: str
    namespace_separator: str | None
    origin_rules: OriginRules
    trusted_proxies: TrustedProxies
    permitted_profiles: PermittedProfiles
    about: About
    endpoint_statistics: EndpointStatistics
    default_project_enabled: bool = True
    read_only: bool = False
    stopping: bool = False
    _app: web.Application | None = None

    @property
    def app(self) -> web.Application:
        """The HTTP application, created on first use, because operators' commands do not need it."""
        if self._app is None:
            # Half a second. No request should take longer.
            event_schemas()
            self._app = build_app(
                self,
                namespace_separator=self.namespace_separator,
                origin_rules=self.origin_rules,
                trusted_proxies=self.trusted_proxies,
            )
        return self._app

    @property
    def event_schemas(self) -> Mapping[str, dict[str, Any]]:
        return event_schemas()

    async def health(self) -> dict[str, Any]:
        """`ok` and the position if the log can be read and written; otherwise the reason."""
        try:
            async with self.backends.connection() as connection:
                log: dict[str, Any] = {"position": await log_head(connection)}
                read_only = await is_read_only(connection)
            if self.read_only:
                return {"status": "ok", "log": log, "read-only": True}
            refused = self.commands.committer.writes_refused or ("Postgres accepts no writes: it is read-only" if read_only else None)
            if refused is not None:
                return {"status": "unavailable", "log": {**log, "error": refused}}
            return {"status": "ok", "log": log}
        except CatalogError as error:
            return {"status": "unavailable", "log": {"error": error.message}}

    async def unready_reason(self) -> str | None:
        """None if the process is not stopping, the database is reachable and has the migrations of this version; otherwise the reason."""
        if self.stopping:
            return "The server is stopping"
        try:
            async with self.backends.connection() as connection:
                missing = await missing_migrations(connection)
        except CatalogError as error:
            return error.message
        except psycopg.Error as error:
            return f"Postgres reports an error: {client_error_text(error)}"
        return f"The database lacks {', '.join(missing)}: run `icecore migrate`" if missing else None

    def stop_serving(self) -> None:
        """Marks the process as not ready, and ends the streams of events, so that their clients connect to another process."""
        self.stopping = True
        self.events.stop()


@asynccontextmanager
async def open_catalog(settings: Settings, secrets: SecretStore | None = None, *, jobs: bool = False) -> AsyncIterator[Application]:
    """Opens the catalog on the database of the settings, whose schema must be that of this version.

    secrets -- with the keys that a server read at its start; None: with those of the settings.
    jobs -- also run the background jobs that one process performs at a time: purges, closing removed parts, expiring proposals and
    soft-deleted objects, and deleting old Idempotency-Keys. The worker runs them (icecore/worker.py).
    """
    async with AsyncExitStack() as opened:
        pooler_dsn = None if jobs else settings.pooler_dsn
        secrets, authorizer = secrets or secret_store(settings), AllowAll()
        backends = _open_backends(settings, pooler_dsn, secrets, opened)
        queries = QueryExecutor(backends, authorizer, cache_bytes_max=settings.read_cache_bytes_max)
        opened.push_async_callback(queries.close)
        commands = await _open_commands(settings, pooler_dsn, backends, secrets, authorizer, opened)
        commands.on_warehouse_changed = queries.refresh_in_background
        events = LogEventSource(
            settings.dsn,
            subscribers_max=settings.event_subscribers_max,
            base_url=settings.public_url or "",
            polls=settings.read_only,
        )
        opened.push_async_callback(events.close)
        purge, old_files, parts = PurgeJob(commands), OldMetadataFilesJob(commands), ClosePartsJob(commands)
        expiry, soft_deletion = ExpiryJob(commands), ExpireSoftDeletedJob(commands)
        catalog = Application(
            backends, AnonymousAuthenticator(), commands, queries, settings.api_limits(), purge, old_files, parts, expiry, soft_deletion,
            events, settings.dsn, settings.namespace_separator, settings.origin_rules(), settings.proxies(), settings.permitted_profiles(),
            _about(settings), EndpointStatistics(backends), settings.default_project, settings.read_only,
        )  # fmt: skip
        if not (jobs or settings.read_only):
            catalog.endpoint_statistics.start()
            opened.push_async_callback(catalog.endpoint_statistics.close)
        if jobs:
            _start_jobs(catalog, settings.idempotency_key_lifetime, opened)
        yield catalog


def _about(settings: Settings) -> About:
    clouds = settings.system_credentials()
    return About(icecore_version(), clouds.aws, clouds.azure, clouds.gcp)


def _open_backends(settings: Settings, pooler_dsn: str | None, secrets: SecretStore, opened: AsyncExitStack) -> Backends:
    """The connections for reads and locks, and the stores, closed with `opened`."""
    transaction_pooled = pooler_dsn is not None
    connections = ConnectionPool(
        pooler_dsn or settings.dsn,
        settings.database_read_connections_max,
        application_name="icecore-reads",
        transaction_pooled=transaction_pooled,
    )
    opened.push_async_callback(connections.close)
    sessions = None
    if transaction_pooled:
        sessions = ConnectionPool(settings.dsn, SESSIONS_MAX, application_name="icecore-locks")
        opened.push_async_callback(sessions.close)
    stores = ObjectStores(fsync=settings.local_files_fsync, system=settings.system_credentials())
    opened.callback(stores.close)
    return Backends(
        connections, stores, secrets, session_connections=sessions, large_documents_bytes_max=settings.large_documents_bytes_max
    )


async def _open_commands(
    settings: Settings, pooler_dsn: str | None, backends: Backends, secrets: SecretStore, authorizer: Authorizer, opened: AsyncExitStack
) -> CommandExecutor:
    """The executor of commands with its committer, reports and approval hooks, closed with `opened`."""
    committer = Committer(pooler_dsn or settings.dsn, settings.database_write_connections_max, transaction_pooled=pooler_dsn is not None)
    committer.start()
    opened.push_async_callback(committer.close)
    reports = MetricsReports(backends, settings.metrics_reports_max)
    reports.start()
    opened.push_async_callback(reports.close)
    commands = CommandExecutor(
        backends, authorizer, committer, secrets, reports,
        retry_seconds_max=settings.commit_deadline_seconds, skip_storage_validation=settings.skip_storage_validation,
        reserved_namespaces=settings.reserved_namespaces,
    )  # fmt: skip
    hooks = await opened.enter_async_context(opened_hooks(settings))
    if hooks:
        commands.decision_writer.approval_hooks = ApprovalHooks(hooks, backends.connection)
    return commands


def _start_jobs(catalog: Application, key_lifetime: timedelta, opened: AsyncExitStack) -> None:
    """Starts the background jobs, and stops them when `opened` is closed."""
    for job in (catalog.purge, catalog.old_files, catalog.parts, catalog.expiry, catalog.soft_deletion):
        job.start()
        opened.push_async_callback(job.close)
    forgetting = asyncio.create_task(_forget_keys(catalog.backends, key_lifetime), name="forget-keys")
    opened.callback(forgetting.cancel)


async def _forget_keys(backends: Backends, lifetime: timedelta) -> None:
    """Deletes Idempotency-Keys a little after the lifetime that clients were given."""
    outage = OutageLog("icecore.compose", "idempotency_key_deletion_failed", "idempotency_key_deletion_recovered")
    while True:
        try:
            async with backends.connection() as connection:
                forgotten = await idempotency.delete_expired(connection, lifetime * 1.1)
            outage.succeeded()
            if forgotten:
                _log.info("idempotency_keys_deleted", keys=forgotten)
        except Exception as error:
            # Any failure: the next round deletes them.
            outage.failed(type(error), error=client_error_text(error))
        await asyncio.sleep(_FORGET_KEYS_EVERY_SECONDS)

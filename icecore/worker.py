"""The worker: publishing, asynchronous projections and jobs, in a process that serves no requests.

`icecore serve` starts one, `icecore worker` is one. Any number can run; each job has one leader.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import structlog
import uvloop

from .allocator import return_large_blocks
from .asynchronous_projections import run_projections
from .child_process import ChildProcess, receive_parameters, stop_with_parent
from .compose import open_catalog
from .logs import configure_logs_for, log_uncaught
from .metrics import CatalogMetrics, ServeMetrics, shown_metrics
from .metrics_channel import metrics_of
from .security.secrets import SecretStore
from .settings import Settings, settings_from_json
from .sinks import STOP_SECONDS_MAX, publishers, run_publishers


@contextlib.asynccontextmanager
async def worker_beside(settings: Settings, secrets: SecretStore) -> AsyncIterator[ChildProcess | None]:
    """Runs a worker process while the block runs and restarts it if it dies. It does nothing if the settings say so, or on a standby.

    Raises SettingsError at once for invalid sinks.
    """
    if settings.read_only or not settings.worker_beside_server:
        yield None
        return
    publishers(settings)
    stop = asyncio.Event()
    # A sink may write to standard output, so the worker shares it.
    child = ChildProcess(
        "worker",
        "icecore.worker",
        {"settings": settings.to_json(), "secret-keys": secrets.to_json()},
        grace_seconds=STOP_SECONDS_MAX,
        reports_metrics=settings.metrics_port is not None,
    )
    keeping = asyncio.create_task(child.keep_running(stop), name="worker")
    try:
        yield child
    finally:
        stop.set()
        await keeping


async def run_worker(settings: Settings, secrets: SecretStore, stop: asyncio.Event, metrics: ServeMetrics | None = None) -> None:
    """Runs until `stop` is set. Raises SettingsError for invalid sinks.

    metrics -- shows the metrics of this process.
    """
    return_large_blocks()
    async with open_catalog(settings, secrets, jobs=True) as catalog, shown_metrics(metrics, CatalogMetrics(catalog, serving=False).read):
        await asyncio.gather(run_publishers(settings, stop), run_projections(settings.dsn, stop))


def main() -> None:
    parameters = receive_parameters()
    settings = settings_from_json(parameters["settings"])
    configure_logs_for(settings, parameters["secret-keys"])
    log_uncaught()
    structlog.contextvars.bind_contextvars(process="worker")
    uvloop.run(_run(settings, SecretStore.from_json(parameters["secret-keys"]), metrics_of(parameters)))


async def _run(settings: Settings, secrets: SecretStore, metrics: ServeMetrics | None) -> None:
    stop = asyncio.Event()
    stop_with_parent(stop)
    await run_worker(settings, secrets, stop, metrics)


if __name__ == "__main__":
    main()

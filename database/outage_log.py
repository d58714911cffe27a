"""Logs an outage when it begins, once for each further cause, and when it ends, however many attempts fail."""

import time
from typing import Any

import structlog

_CAUSES_MAX = 100


class OutageLog:
    """Writes the log records of a task that is retried. `fields` are added to every record.

    began, ended -- names of the two records.
    """

    def __init__(self, logger: str, began: str, ended: str, **fields: Any) -> None:
        self._log = structlog.get_logger(logger).bind(**fields)
        self._began = began
        self._ended = ended
        self._causes: set[object] = set()
        self._since = 0.0

    def failed(self, cause: object = None, *, began: str | None = None, **fields: Any) -> None:
        """Reports a failure. It is logged if it is the first with this cause since the last success."""
        if not self._causes:
            self._since = time.monotonic()
        elif cause in self._causes or len(self._causes) >= _CAUSES_MAX:
            return
        self._causes.add(cause)
        self._log.warning(began or self._began, **fields)

    def succeeded(self) -> None:
        if self._causes:
            self._log.info(self._ended, seconds=round(time.monotonic() - self._since, 1))
            self._causes.clear()

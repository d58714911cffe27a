"""All operations of the server: health, Iceberg, management, history and the documentation of both."""

from . import health
from .history.operations import OPERATIONS as HISTORY
from .iceberg.operations import OPERATIONS as ICEBERG
from .management.operations import OPERATIONS as MANAGEMENT
from .openapi.operations import OPERATIONS as OPENAPI
from .routing import Operation

OPERATIONS = (
    Operation("getHealth", "GET", "/health", health.get_health, serves_head_method=True, public=True),
    Operation("getLiveness", "GET", "/livez", health.get_liveness, serves_head_method=True, public=True, probe=True),
    Operation("getReadiness", "GET", "/readyz", health.get_readiness, serves_head_method=True, public=True, probe=True),
    *ICEBERG,
    *MANAGEMENT,
    *HISTORY,
    *OPENAPI,
)

"""Every operation of the server: health, Iceberg's, management and history."""

from api import health
from api.history.operations import OPERATIONS as HISTORY
from api.iceberg.operations import OPERATIONS as ICEBERG
from api.management.operations import OPERATIONS as MANAGEMENT
from api.routing import Operation

OPERATIONS = (
    Operation("getHealth", "GET", "/health", health.get_health, head=True, open=True),
    *ICEBERG,
    *MANAGEMENT,
    *HISTORY,
)

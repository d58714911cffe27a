"""The operations of the management API."""

from ..routing import Operation
from . import event_schemas, proposals, warehouses

_WAREHOUSES = "/management/v1/warehouse"
_PROPOSALS = "/management/v1/proposals"
_PROPOSAL = f"{_PROPOSALS}/{{proposal}}"
_NONE: frozenset[str] = frozenset()

OPERATIONS = (
    Operation("createWarehouse", "POST", _WAREHOUSES, warehouses.create_warehouse, parameters=_NONE),
    Operation("listWarehouses", "GET", _WAREHOUSES, warehouses.list_warehouses),
    Operation("getWarehouse", "GET", f"{_WAREHOUSES}/{{warehouse_id}}", warehouses.get_warehouse, parameters=_NONE),
    Operation(
        "updateWarehouseConfig",
        "POST",
        f"{_WAREHOUSES}/{{warehouse_id}}/config",
        warehouses.update_warehouse_config,
        parameters=_NONE,
    ),
    Operation(
        "getWarehouseStatistics",
        "GET",
        f"{_WAREHOUSES}/{{warehouse_id}}/statistics",
        warehouses.get_warehouse_statistics,
        parameters=frozenset(warehouses.STATISTICS_PARAMETERS),
    ),
    Operation("listProposals", "GET", _PROPOSALS, proposals.list_proposals, parameters=proposals.LIST_PARAMETERS),
    Operation("loadProposal", "GET", _PROPOSAL, proposals.load, parameters=_NONE),
    Operation("approveProposal", "POST", f"{_PROPOSAL}/approve", proposals.approve, commits=True, parameters=_NONE),
    Operation("rejectProposal", "POST", f"{_PROPOSAL}/reject", proposals.reject, commits=True, parameters=_NONE),
    Operation("listEventSchemas", "GET", event_schemas.ADDRESS, event_schemas.list_event_schemas, head=True, open=True, parameters=_NONE),
    Operation(
        "loadEventSchema",
        "GET",
        f"{event_schemas.ADDRESS}/{{type}}",
        event_schemas.load_event_schema,
        head=True,
        open=True,
        parameters=_NONE,
    ),
)

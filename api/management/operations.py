"""The operations of the management API."""

from ..routing import Operation
from . import event_schemas, proposals, warehouses

_WAREHOUSES = "/management/v1/warehouse"
_PROPOSALS = "/management/v1/proposals"
_PROPOSAL = f"{_PROPOSALS}/{{proposal}}"
_NONE: frozenset[str] = frozenset()
_WAREHOUSE = f"{_WAREHOUSES}/{{warehouse_id}}"

OPERATIONS = (
    Operation("createWarehouse", "POST", _WAREHOUSES, warehouses.create_warehouse, parameters=_NONE),
    Operation("listWarehouses", "GET", _WAREHOUSES, warehouses.list_warehouses),
    Operation("getWarehouse", "GET", _WAREHOUSE, warehouses.get_warehouse, parameters=_NONE),
    Operation(
        "updateWarehouseConfig",
        "POST",
        f"{_WAREHOUSE}/config",
        warehouses.update_warehouse_config,
        parameters=_NONE,
    ),
    Operation("deleteWarehouse", "DELETE", _WAREHOUSE, warehouses.delete_warehouse, parameters=frozenset({"force"})),
    Operation("renameWarehouse", "POST", f"{_WAREHOUSE}/rename", warehouses.rename_warehouse, parameters=_NONE),
    Operation("activateWarehouse", "POST", f"{_WAREHOUSE}/activate", warehouses.activate_warehouse, parameters=_NONE),
    Operation("deactivateWarehouse", "POST", f"{_WAREHOUSE}/deactivate", warehouses.deactivate_warehouse, parameters=_NONE),
    Operation("setWarehouseProtection", "POST", f"{_WAREHOUSE}/protection", warehouses.set_warehouse_protection, parameters=_NONE),
    Operation(
        "updateWarehouseFormatVersionPolicy",
        "POST",
        f"{_WAREHOUSE}/format-version-policy",
        warehouses.update_warehouse_format_version_policy,
        parameters=_NONE,
    ),
    Operation(
        "getWarehouseStatistics",
        "GET",
        f"{_WAREHOUSE}/statistics",
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

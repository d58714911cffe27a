"""The operations of the management API."""

from ..paging import PAGE_PARAMETERS
from ..routing import Operation
from . import (
    deleted_namespaces,
    deleted_tabulars,
    endpoint_statistics,
    event_schemas,
    namespaces,
    projects,
    proposals,
    protection,
    search,
    server,
    tasks,
    warehouses,
)

_WAREHOUSES = "/management/v1/warehouse"
_PROJECT = "/management/v1/project"
_PROJECT_BY_ID = f"{_PROJECT}/{{project_id}}"
_PROPOSALS = "/management/v1/proposals"
_PROPOSAL = f"{_PROPOSALS}/{{proposal}}"
_NONE: frozenset[str] = frozenset()
_WAREHOUSE = f"{_WAREHOUSES}/{{warehouse_id}}"
_NAMESPACE_PROTECTION = f"{_WAREHOUSE}/namespace/{{namespace_id}}/protection"
_TABLE_PROTECTION = f"{_WAREHOUSE}/table/{{table_id}}/protection"
_VIEW_PROTECTION = f"{_WAREHOUSE}/view/{{view_id}}/protection"
_TASK_LOG_CLEANUP_CONFIG = f"{_PROJECT}/task-queue/task_log_cleanup/config"
_QUEUE_CONFIG = f"{_WAREHOUSE}/task-queue/{{queue_name}}/config"

_ACTIONS = server.ACTIONS_PARAMETERS
_PAGES = ((PAGE_PARAMETERS[1], ""),)

OPERATIONS = (
    Operation("getServerInfo", "GET", "/management/v1/info", server.get_server_info, of_server=True, parameters=_NONE),
    Operation("bootstrap", "POST", "/management/v1/bootstrap", server.bootstrap, of_server=True, safe=True, parameters=_NONE),
    Operation("whoami", "GET", "/management/v1/whoami", server.whoami, of_server=True, parameters=_NONE),
    Operation("getServerActions", "GET", "/management/v1/server/actions", server.get_server_actions, of_server=True, parameters=_ACTIONS),
    Operation("getProjectActions", "GET", f"{_PROJECT}/actions", server.get_project_actions, parameters=_ACTIONS),
    Operation("getWarehouseActions", "GET", f"{_WAREHOUSE}/actions", server.get_warehouse_actions, parameters=_ACTIONS),
    Operation(
        "getNamespaceActions",
        "GET",
        f"{_WAREHOUSE}/namespace/{{namespace_id}}/actions",
        server.get_namespace_actions,
        parameters=_ACTIONS,
    ),
    Operation("getTableActions", "GET", f"{_WAREHOUSE}/table/{{table_id}}/actions", server.get_table_actions, parameters=_ACTIONS),
    Operation("getViewActions", "GET", f"{_WAREHOUSE}/view/{{view_id}}/actions", server.get_view_actions, parameters=_ACTIONS),
    Operation("createProject", "POST", _PROJECT, projects.create_project, of_server=True, parameters=_NONE),
    Operation("listProjects", "GET", "/management/v1/project-list", projects.list_projects, of_server=True, parameters=_NONE),
    Operation("getProject", "GET", _PROJECT, projects.get_project, parameters=_NONE),
    Operation("renameProject", "POST", f"{_PROJECT}/rename", projects.rename_project, parameters=_NONE),
    Operation("deleteProject", "DELETE", _PROJECT, projects.delete_project, parameters=_NONE),
    Operation("getProjectById", "GET", _PROJECT_BY_ID, projects.get_project, parameters=_NONE),
    Operation("renameProjectById", "POST", f"{_PROJECT_BY_ID}/rename", projects.rename_project, parameters=_NONE),
    Operation("deleteProjectById", "DELETE", _PROJECT_BY_ID, projects.delete_project, parameters=_NONE),
    Operation(
        "getEndpointStatistics",
        "POST",
        "/management/v1/endpoint-statistics",
        endpoint_statistics.get_endpoint_statistics,
        safe=True,
        parameters=_NONE,
    ),
    Operation("createWarehouse", "POST", _WAREHOUSES, warehouses.create_warehouse, project_in_body=True, parameters=_NONE),
    Operation(
        "listWarehouses",
        "GET",
        _WAREHOUSES,
        warehouses.list_warehouses,
        parameters=warehouses.LIST_PARAMETERS,
        repeatable=frozenset({"warehouseStatus"}),
    ),
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
    Operation("setWarehouseReadOnly", "POST", f"{_WAREHOUSE}/read-only", warehouses.set_warehouse_read_only, parameters=_NONE),
    Operation(
        "validateWarehouse",
        "POST",
        f"{_WAREHOUSES}-creation-validation",
        warehouses.validate_warehouse,
        safe=True,
        project_in_body=True,
        parameters=_NONE,
    ),
    Operation(
        "validateStorageProfile",
        "POST",
        f"{_WAREHOUSE}/storage/validate-profile",
        warehouses.validate_storage_profile,
        safe=True,
        parameters=_NONE,
    ),
    Operation(
        "validateStorageCredential",
        "POST",
        f"{_WAREHOUSE}/storage/validate-credential",
        warehouses.validate_storage_credential,
        safe=True,
        parameters=_NONE,
    ),
    Operation(
        "validateStorageAccess",
        "POST",
        f"{_WAREHOUSE}/storage/validate-access",
        warehouses.validate_storage_access,
        safe=True,
        parameters=_NONE,
    ),
    Operation("updateStorageProfile", "POST", f"{_WAREHOUSE}/storage", warehouses.update_storage_profile, parameters=_NONE),
    Operation(
        "updateStorageCredential", "POST", f"{_WAREHOUSE}/storage-credential", warehouses.update_storage_credential, parameters=_NONE
    ),
    Operation(
        "updateWarehouseDeleteProfile",
        "POST",
        f"{_WAREHOUSE}/delete-profile",
        warehouses.update_warehouse_delete_profile,
        parameters=_NONE,
    ),
    Operation("setWarehousePurgeDefault", "POST", f"{_WAREHOUSE}/purge-default", warehouses.set_warehouse_purge_default, parameters=_NONE),
    Operation(
        "listDeletedTabulars",
        "GET",
        f"{_WAREHOUSE}/deleted-tabulars",
        deleted_tabulars.list_deleted_tabulars,
        parameters=deleted_tabulars.LIST_PARAMETERS,
        sized_by=_PAGES,
    ),
    Operation("undropTabulars", "POST", f"{_WAREHOUSE}/deleted-tabulars/undrop", deleted_tabulars.undrop_tabulars, parameters=_NONE),
    Operation(
        "listDeletedNamespaces",
        "GET",
        f"{_WAREHOUSE}/deleted-namespaces",
        deleted_namespaces.list_deleted_namespaces,
        parameters=deleted_namespaces.LIST_PARAMETERS,
        sized_by=_PAGES,
    ),
    Operation(
        "undropNamespace",
        "POST",
        f"{_WAREHOUSE}/deleted-namespaces/{{namespace_id}}/undrop",
        deleted_namespaces.undrop_namespace,
        parameters=_NONE,
    ),
    Operation(
        "getWarehouseStatistics",
        "GET",
        f"{_WAREHOUSE}/statistics",
        warehouses.get_warehouse_statistics,
        parameters=frozenset(warehouses.STATISTICS_PARAMETERS),
        sized_by=((warehouses.STATISTICS_PARAMETERS[1], ""),),
    ),
    Operation("searchTabular", "POST", f"{_WAREHOUSE}/search-tabular", search.search_tabular, safe=True, parameters=_NONE),
    Operation("listTasks", "POST", f"{_WAREHOUSE}/task/list", tasks.list_tasks, safe=True, parameters=_NONE),
    Operation("getTaskDetails", "GET", f"{_WAREHOUSE}/task/by-id/{{task_id}}", tasks.get_task_details, parameters=tasks.DETAILS_PARAMETERS),
    Operation("controlTasks", "POST", f"{_WAREHOUSE}/task/control", tasks.control_tasks, parameters=_NONE),
    Operation("getTaskQueueConfig", "GET", _QUEUE_CONFIG, tasks.get_task_queue_config, parameters=_NONE),
    Operation("setTaskQueueConfig", "POST", _QUEUE_CONFIG, tasks.set_task_queue_config, parameters=_NONE),
    Operation("listProjectTasks", "POST", f"{_PROJECT}/task/list", tasks.list_project_tasks, safe=True, parameters=_NONE),
    Operation(
        "getProjectTaskDetails",
        "GET",
        f"{_PROJECT}/task/by-id/{{task_id}}",
        tasks.get_project_task_details,
        parameters=tasks.DETAILS_PARAMETERS,
    ),
    Operation("controlProjectTasks", "POST", f"{_PROJECT}/task/control", tasks.control_project_tasks, safe=True, parameters=_NONE),
    Operation("getTaskLogCleanupConfig", "GET", _TASK_LOG_CLEANUP_CONFIG, tasks.get_task_log_cleanup_config, parameters=_NONE),
    Operation("setTaskLogCleanupConfig", "POST", _TASK_LOG_CLEANUP_CONFIG, tasks.set_task_log_cleanup_config, safe=True, parameters=_NONE),
    Operation("getNamespaceProtection", "GET", _NAMESPACE_PROTECTION, protection.get_namespace_protection, parameters=_NONE),
    Operation("setNamespaceProtection", "POST", _NAMESPACE_PROTECTION, protection.set_namespace_protection, parameters=_NONE),
    Operation("moveNamespace", "POST", f"{_WAREHOUSE}/namespace/{{namespace_id}}/move", namespaces.move_namespace, parameters=_NONE),
    Operation("getTableProtection", "GET", _TABLE_PROTECTION, protection.get_table_protection, parameters=_NONE),
    Operation("setTableProtection", "POST", _TABLE_PROTECTION, protection.set_table_protection, parameters=_NONE),
    Operation("getViewProtection", "GET", _VIEW_PROTECTION, protection.get_view_protection, parameters=_NONE),
    Operation("setViewProtection", "POST", _VIEW_PROTECTION, protection.set_view_protection, parameters=_NONE),
    Operation("listProposals", "GET", _PROPOSALS, proposals.list_proposals, parameters=proposals.LIST_PARAMETERS, sized_by=_PAGES),
    Operation("loadProposal", "GET", _PROPOSAL, proposals.load, parameters=_NONE),
    Operation("approveProposal", "POST", f"{_PROPOSAL}/approve", proposals.approve, commits=True, parameters=_NONE),
    Operation("rejectProposal", "POST", f"{_PROPOSAL}/reject", proposals.reject, commits=True, parameters=_NONE),
    Operation(
        "listEventSchemas",
        "GET",
        event_schemas.ADDRESS,
        event_schemas.list_event_schemas,
        serves_head_method=True,
        public=True,
        parameters=_NONE,
    ),
    Operation(
        "loadEventSchema",
        "GET",
        f"{event_schemas.ADDRESS}/{{type}}",
        event_schemas.load_event_schema,
        serves_head_method=True,
        public=True,
        parameters=_NONE,
    ),
)

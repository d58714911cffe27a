"""The actions of Lakekeeper's management API 0.13.1, by kind of object: what a principal may be permitted to do."""

from collections.abc import Mapping, Sequence

from .authorization import ResourceKind

ACTIONS: Mapping[ResourceKind, Sequence[str]] = {
    "server": ("create_project", "update_users", "delete_users", "list_users", "provision_users"),
    "project": (
        "create_warehouse", "delete", "rename", "get_metadata", "list_warehouses", "include_in_list", "create_role", "list_roles",
        "search_roles", "get_endpoint_statistics", "modify_task_queue_config", "get_task_queue_config", "get_project_tasks",
        "control_project_tasks",
    ),
    "warehouse": (
        "create_namespace", "delete", "update_storage", "update_storage_credential", "get_metadata",
        "get_config", "list_namespaces", "list_everything", "use",
        "include_in_list", "deactivate", "activate", "rename", "list_deleted_tabulars", "modify_soft_deletion", "get_task_queue_config",
        "modify_task_queue_config", "get_all_tasks", "control_all_tasks", "set_protection", "set_format_version_policy",
        "get_endpoint_statistics",
    ),
    "namespace": (
        "create_table", "create_view", "create_namespace", "delete", "update_properties", "get_metadata", "list_tables", "list_views",
        "list_namespaces", "list_everything", "set_protection", "include_in_list", "create_generic_table", "list_generic_tables",
    ),
    "table": (
        "drop", "write_data", "read_data", "get_metadata", "commit", "rename", "include_in_list", "undrop", "get_tasks", "control_tasks",
        "set_protection",
    ),
    "view": (
        "drop", "get_metadata", "select", "commit", "include_in_list", "rename", "undrop", "get_tasks", "control_tasks",
        "set_protection",
    ),
}  # fmt: skip
"""Until there are grants, everyone may do everything, including what Icecore does not offer yet."""

"""Iceberg's operations, in the order of the specification. `getConfig` advertises them, except proposed ones and `getToken`."""

from ..routing import CATALOG_BASE, Operation
from . import config, events, metrics, namespaces, oauth, tables, transactions, views

_WAREHOUSE = f"{CATALOG_BASE}/{{prefix}}"
_NAMESPACES = f"{_WAREHOUSE}/namespaces"
_NAMESPACE = f"{_NAMESPACES}/{{namespace}}"
_TABLE = f"{_NAMESPACE}/tables/{{table}}"
_VIEW = f"{_NAMESPACE}/views/{{view}}"

OPERATIONS = (
    Operation("getConfig", "GET", f"{CATALOG_BASE}/config", config.get_config),
    Operation(
        "getToken", "POST", f"{CATALOG_BASE}/oauth/tokens", oauth.get_token, advertised=False, safe=True, public=True, body_ignored=True
    ),
    Operation("listNamespaces", "GET", _NAMESPACES, namespaces.list_namespaces, sized_by=None),
    Operation("createNamespace", "POST", _NAMESPACES, namespaces.create_namespace),
    Operation("loadNamespaceMetadata", "GET", _NAMESPACE, namespaces.load_namespace_metadata),
    Operation("namespaceExists", "HEAD", _NAMESPACE, namespaces.namespace_exists),
    Operation("dropNamespace", "DELETE", _NAMESPACE, namespaces.drop_namespace),
    Operation("updateProperties", "POST", f"{_NAMESPACE}/properties", namespaces.update_properties),
    Operation("listTables", "GET", f"{_NAMESPACE}/tables", tables.list_tables, sized_by=None),
    Operation("createTable", "POST", f"{_NAMESPACE}/tables", tables.create_table),
    Operation("registerTable", "POST", f"{_NAMESPACE}/register", tables.register_table),
    Operation("loadTable", "GET", _TABLE, tables.load_table, sized_by=((tables.SNAPSHOTS, tables.SNAPSHOTS_DEFAULT),)),
    Operation("updateTable", "POST", _TABLE, tables.update_table, commits=True),
    Operation("dropTable", "DELETE", _TABLE, tables.drop_table),
    Operation("tableExists", "HEAD", _TABLE, tables.table_exists),
    Operation("unregisterTable", "POST", f"{_TABLE}/unregister", tables.unregister_table),
    Operation("loadCredentials", "GET", f"{_TABLE}/credentials", tables.load_credentials),
    Operation("renameTable", "POST", f"{_WAREHOUSE}/tables/rename", tables.rename_table),
    Operation("reportMetrics", "POST", f"{_TABLE}/metrics", metrics.report_metrics),
    Operation("commitTransaction", "POST", f"{_WAREHOUSE}/transactions/commit", transactions.commit_transaction, commits=True),
    Operation("listViews", "GET", f"{_NAMESPACE}/views", views.list_views, sized_by=None),
    Operation("createView", "POST", f"{_NAMESPACE}/views", views.create_view),
    Operation("loadView", "GET", _VIEW, views.load_view),
    Operation("replaceView", "POST", _VIEW, views.replace_view, commits=True),
    Operation("dropView", "DELETE", _VIEW, views.drop_view),
    Operation("viewExists", "HEAD", _VIEW, views.view_exists),
    Operation("renameView", "POST", f"{_WAREHOUSE}/views/rename", views.rename_view),
    Operation("registerView", "POST", f"{_NAMESPACE}/register-view", views.register_view),
    Operation("queryEvents", "POST", f"{_WAREHOUSE}/events", events.query_events, advertised=False, safe=True),
)

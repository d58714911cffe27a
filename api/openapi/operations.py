"""The operations for API documentation. They reveal nothing of what the catalog contains, so they need no authentication."""

from ..routing import Operation
from . import documents, swagger_ui

_NONE: frozenset[str] = frozenset()

OPERATIONS = (
    Operation(
        "getManagementDocument",
        "GET",
        "/api-docs/management/v1/openapi.json",
        documents.get_management_document,
        serves_head_method=True,
        public=True,
        parameters=_NONE,
    ),
    Operation(
        "getHistoryDocument",
        "GET",
        "/api-docs/history/v1/openapi.json",
        documents.get_history_document,
        serves_head_method=True,
        public=True,
        parameters=_NONE,
    ),
    Operation("redirectToSwaggerUi", "GET", swagger_ui.ADDRESS, swagger_ui.redirect_to_page, serves_head_method=True, public=True),
    Operation("getSwaggerUi", "GET", f"{swagger_ui.ADDRESS}/", swagger_ui.get_page, serves_head_method=True, public=True),
    Operation("getSwaggerUiFile", "GET", f"{swagger_ui.ADDRESS}/{{file}}", swagger_ui.get_file, serves_head_method=True, public=True),
)

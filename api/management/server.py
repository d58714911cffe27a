"""The server itself: what it is, its bootstrap, its principal, and what may be done (`/management/v1/info` and others)."""

from uuid import UUID

from aiohttp import web

from ...access.authorization import SERVER, Resource
from ...access.request_context import ANONYMOUS
from ...domain.errors import (
    AlreadyBootstrapped,
    BadRequest,
    CatalogError,
    NoSuchNamespace,
    NoSuchTable,
    NoSuchUser,
    NoSuchView,
    NoSuchWarehouse,
    NoUserWithoutToken,
    TermsNotAccepted,
)
from ...domain.identifiers import ContentKind, uuid_or_none
from ...domain.project import PROJECT_ID_DEFAULT
from ...domain.task import QUEUES
from ...queries.load_actions import load_actions, load_object_actions, load_warehouse_actions
from ...queries.load_server import load_server_id
from ..api_request import ApiRequest
from ..path_parameters import decode_segment

ACTIONS_PARAMETERS = frozenset({"principalUser", "principalRole"})
"""Another principal than the request's. Everything is permitted to everybody, so the response is the same."""

LAKEKEEPER_VERSION = "0.13.1"
"""The version whose management API this one follows. Clients compare it with the one that they need."""

_BOOTSTRAP_FIELDS = ("accept-terms-of-use", "is-operator", "user-name", "user-email", "user-type")


async def get_server_info(request: ApiRequest) -> web.Response:
    """A ServerInfo of Lakekeeper."""
    server_id = await load_server_id(request.catalog.queries, request.context)
    about = request.catalog.about
    return await request.json(
        {
            "version": about.version,
            "lakekeeper-version": LAKEKEEPER_VERSION,
            # Without authentication nothing needs bootstrapping.
            "bootstrapped": True,
            "server-id": str(server_id),
            "default-project-id": str(PROJECT_ID_DEFAULT) if request.catalog.default_project_enabled else None,
            "authz-backend": "allow-all",
            "aws-system-identities-enabled": about.aws_system_identities,
            "azure-system-identities-enabled": about.azure_system_identities,
            "gcp-system-identities-enabled": about.gcp_system_identities,
            "queues": list(QUEUES),
            "license-status": {"license-type": "Apache-2.0", "valid": True},
        }
    )


async def bootstrap(request: ApiRequest) -> web.Response:
    """Without authentication the server counts as bootstrapped: 400 `CatalogAlreadyBootstrapped`, as Lakekeeper's second bootstrap."""
    _, fields = await request.read_body_fields()
    fields.refuse_unknown(_BOOTSTRAP_FIELDS)
    accepted = fields.required_boolean("accept-terms-of-use")
    fields.boolean("is-operator")
    for name in ("user-name", "user-email"):
        fields.text_or_none(name)
    if fields.text_or_none("user-type") not in (None, "human", "application"):
        raise fields.invalid_error("user-type", "must be human or application")
    await request.authorize(SERVER)
    if not accepted:
        raise TermsNotAccepted
    raise AlreadyBootstrapped


async def whoami(request: ApiRequest) -> web.Response:
    """As Lakekeeper's: 401 for the anonymous principal, as without a token, and 404 for others, because there are no records of users."""
    await request.authorize(SERVER)
    if request.context.principal == ANONYMOUS:
        raise NoUserWithoutToken
    raise NoSuchUser(f"User does not exist: {request.context.principal.id}")


async def get_server_actions(request: ApiRequest) -> web.Response:
    return await _actions(request, SERVER)


async def get_project_actions(request: ApiRequest) -> web.Response:
    return await _actions(request, Resource("project", request.context.project_id))


async def get_warehouse_actions(request: ApiRequest) -> web.Response:
    _check_principal(request)
    warehouse_id = _id(request, "warehouse_id", NoSuchWarehouse)
    return await request.json({"allowed-actions": await load_warehouse_actions(request.catalog.queries, request.context, warehouse_id)})


async def get_namespace_actions(request: ApiRequest) -> web.Response:
    return await _object_actions(request, "namespace", NoSuchNamespace)


async def get_table_actions(request: ApiRequest) -> web.Response:
    return await _object_actions(request, "table", NoSuchTable)


async def get_view_actions(request: ApiRequest) -> web.Response:
    return await _object_actions(request, "view", NoSuchView)


async def _actions(request: ApiRequest, resource: Resource) -> web.Response:
    _check_principal(request)
    return await request.json({"allowed-actions": await load_actions(request.catalog.queries, request.context, resource)})


async def _object_actions(request: ApiRequest, kind: ContentKind, no_such: type[CatalogError]) -> web.Response:
    _check_principal(request)
    warehouse_id, object_id = _id(request, "warehouse_id", NoSuchWarehouse), _id(request, f"{kind}_id", no_such)
    found = await load_object_actions(request.catalog.queries, request.context, warehouse_id, kind, object_id)
    return await request.json({"allowed-actions": found})


def _check_principal(request: ApiRequest) -> None:
    if "principalUser" in request.query and "principalRole" in request.query:
        raise BadRequest("Invalid parameter 'principalRole': cannot be combined with principalUser")


def _id(request: ApiRequest, segment: str, no_such: type[CatalogError]) -> UUID:
    what = segment.removesuffix("_id")
    text = decode_segment(request.segments[segment], f"{what} id")
    found = uuid_or_none(text)
    if found is None:
        raise no_such(f"{what.capitalize()} does not exist: {text[:64]} (must be an id)")
    return found

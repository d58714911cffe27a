"""A warehouse as the management API returns it, with the kind of its credential."""

from ..domain.documents import Json
from ..domain.warehouse import WarehouseState
from ..projections.response_bodies import warehouse_result
from ..security.secrets import SecretUnreadable
from .backends import Backends


async def load_result(backends: Backends, state: WarehouseState) -> Json:
    """A GetWarehouseResponse; without the kind of the credential if that cannot be read."""
    if state.secret_ref is None:
        return warehouse_result(state, None)
    try:
        credential = await backends.credential(state.project_id, state.secret_ref)
    except SecretUnreadable:
        return warehouse_result(state, None)
    return warehouse_result(state, credential.kind)

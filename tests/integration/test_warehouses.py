"""Warehouses: a name is one warehouse's."""

from pathlib import Path

import pytest
from uuid_utils.compat import uuid4

from commands.warehouses.create_warehouse import CreateWarehouse, create_warehouse
from domain.errors import AlreadyExists
from tests.fixtures.catalog import context
from tests.fixtures.shared_server import SharedCatalog


def test_a_name_that_is_taken_is_refused(shared_catalog: SharedCatalog, tmp_path: Path) -> None:
    """In any case of letters, whatever its place."""
    name = f"taken-{uuid4().hex[:12]}"
    first, second = (CreateWarehouse(each, {"type": "local", "directory": str(tmp_path / each)}) for each in (name, name.upper()))
    answer = shared_catalog.run(create_warehouse(shared_catalog.parts.commands, context("createWarehouse"), first))
    assert 201 == answer.status
    with pytest.raises(AlreadyExists, match="Warehouse already exists"):
        shared_catalog.run(create_warehouse(shared_catalog.parts.commands, context("createWarehouse"), second))

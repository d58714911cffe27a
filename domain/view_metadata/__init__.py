"""Iceberg view metadata as plain JSON values, with the rules and messages of the Java reference (view spec, `ViewMetadata.Builder`).

A document always has the keys `view-uuid format-version location properties schemas current-version-id versions version-log`. Like table
metadata, it is immutable by convention: a changed document shares every unchanged element by identity.
"""

from .builder import new_view_metadata
from .parse import parse_view_metadata
from .requirements import check_view_requirements
from .updates import apply_view_updates

__all__ = ["apply_view_updates", "check_view_requirements", "new_view_metadata", "parse_view_metadata"]

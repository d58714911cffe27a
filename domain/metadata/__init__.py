"""Iceberg table metadata as plain JSON values: parsed, created and changed, with the rules of the Java reference.

The rules are those of the Iceberg table spec, format versions 1 to 3, and of Java's `TableMetadata.Builder` 1.11.0. Arguments are not
modified: a changed document is a new `dict` that shares every unchanged element by identity.

Documents are in one form for all format versions, called the canonical inner form: every member of `draft.empty_metadata` is present, each
part is as its `parse_…` function returns it, `current-snapshot-id` is None if there is no snapshot, and the members `schema` and
`partition-spec`, which version 1 repeats, are absent. `domain/documents.py` writes the form of the document's version.
"""

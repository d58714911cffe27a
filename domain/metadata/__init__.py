"""Iceberg table metadata as plain JSON values: read, created, required of, and changed, as the Java reference does it.

The rules are those of the Iceberg table spec, format versions 1 to 3, and of Java's `TableMetadata.Builder` 1.11.0. Nothing here mutates
what it is given: a changed document is a new `dict` that shares every unchanged element by identity.
"""

"""Iceberg table metadata as plain JSON values: parsed, created and changed, with the rules of the Java reference.

The rules are those of the Iceberg table spec, format versions 1 to 3, and of Java's `TableMetadata.Builder` 1.11.0. Arguments are not
modified: a changed document is a new `dict` that shares every unchanged element by identity.
"""

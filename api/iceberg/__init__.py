"""The Iceberg REST catalog: one module for each resource, one handler for each operation, named after its operationId."""

"""The Iceberg REST catalog: one module per resource, one handler per operation of the spec, named by its operationId."""

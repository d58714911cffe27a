"""Management: operations of operators and consumers that Iceberg's API does not have."""

"""Management: what operators and consumers ask of the catalog beside Iceberg's own operations."""

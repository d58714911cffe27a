"""HTTP: parses requests, calls commands and queries, and serializes answers. It contains no rules of the catalog."""

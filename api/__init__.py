"""HTTP: parses requests, calls commands and queries, and serializes responses. It contains no rules of the catalog."""

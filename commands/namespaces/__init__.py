"""Commands on namespaces."""

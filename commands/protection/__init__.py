"""Commands on the protection of namespaces, tables and views."""

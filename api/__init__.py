"""HTTP: parse, call, serialise; no rules of the catalog live here."""

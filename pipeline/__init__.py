"""Spark on the catalog, through PySpark: how a session reaches it; it speaks to the catalog over REST like any engine."""

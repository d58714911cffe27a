"""Spark jobs on the catalog, through PySpark. They use the REST API like any engine."""

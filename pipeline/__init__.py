"""Spark jobs on the catalog, through PySpark. Tables are read and written through the REST API, as by any engine.

The log comes from Postgres, Kafka or files.
"""

"""Maintenance: the record of the runs that the pipeline performs on tables."""

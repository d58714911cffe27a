"""The columns of `table_commits`, and the members of snapshot summaries that Iceberg writes for them.

Written down apart from pipeline/transforms.py, which the tests compare with it.
"""

SUMS = {
    "added_data_files": "added-data-files",
    "removed_data_files": "deleted-data-files",
    "added_delete_files": "added-delete-files",
    "removed_delete_files": "removed-delete-files",
    "added_rows": "added-records",
    "removed_rows": "deleted-records",
    "added_bytes": "added-files-size",
    "removed_bytes": "removed-files-size",
    "added_position_delete_files": "added-position-delete-files",
    "removed_position_delete_files": "removed-position-delete-files",
}
TOTALS = {
    "total_data_files": "total-data-files",
    "total_delete_files": "total-delete-files",
    "total_rows": "total-records",
    "total_bytes": "total-files-size",
}

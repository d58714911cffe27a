-- Views in the namespace of the landed tables, in SQL that Spark and Trino both understand. {log} is empty for Spark, which finds
-- names in the view's own namespace. Clients write the numbers in summaries and reports, so sums are decimals, which do not overflow.

-- Maintenance writes a table's own rows into other files, as `replace` commits. They are neither growth nor use of the table.

-- name: live_tables --
SELECT object_id AS table_id, warehouse_id, element_at(path, 1) AS warehouse,
  array_join(slice(path, 2, cardinality(path) - 2), '.') AS namespace, element_at(path, -1) AS name
FROM {log}objects
WHERE kind = 'table' AND status = 'live' AND to_position IS NULL

-- name: table_growth --
SELECT table_id, max_by(warehouse, position) AS warehouse, max_by(namespace, position) AS namespace, max_by(name, position) AS name,
  CAST(recorded_at AS date) AS day,
  count_if(operation IS DISTINCT FROM 'replace') AS commits,
  sum(CASE WHEN operation IS DISTINCT FROM 'replace' THEN CAST(added_rows AS decimal(38, 0)) END) AS added_rows,
  sum(CASE WHEN operation IS DISTINCT FROM 'replace' THEN CAST(removed_rows AS decimal(38, 0)) END) AS removed_rows,
  sum(CASE WHEN operation IS DISTINCT FROM 'replace' THEN CAST(added_bytes AS decimal(38, 0)) END) AS added_bytes,
  sum(CASE WHEN operation IS DISTINCT FROM 'replace' THEN CAST(removed_bytes AS decimal(38, 0)) END) AS removed_bytes,
  max_by(total_rows, CASE WHEN total_rows IS NOT NULL THEN position END) AS total_rows,
  max_by(total_bytes, CASE WHEN total_bytes IS NOT NULL THEN position END) AS total_bytes,
  max_by(total_data_files, CASE WHEN total_data_files IS NOT NULL THEN position END) AS total_data_files
FROM {log}table_commits
GROUP BY table_id, CAST(recorded_at AS date)

-- name: hot_tables --
SELECT t.table_id, t.warehouse, t.namespace, t.name,
  coalesce(c.commits, 0) AS commits, coalesce(c.writers, 0) AS writers, coalesce(c.added_bytes, 0) AS added_bytes,
  coalesce(s.scans, 0) AS scans, coalesce(s.scanned_bytes, 0) AS scanned_bytes
FROM {log}live_tables t
LEFT JOIN (
  SELECT table_id, count(*) AS commits, count(DISTINCT CASE WHEN operation IS NOT NULL THEN coalesce(writer, '') END) AS writers,
    sum(CAST(added_bytes AS decimal(38, 0))) AS added_bytes
  FROM {log}table_commits
  WHERE recorded_at >= current_timestamp - INTERVAL '7' DAY AND operation IS DISTINCT FROM 'replace'
  GROUP BY table_id
) c ON c.table_id = t.table_id
LEFT JOIN (
  SELECT table_id, count(*) AS scans, sum(CAST(bytes AS decimal(38, 0))) AS scanned_bytes
  FROM {log}scan_reports WHERE received_at >= current_timestamp - INTERVAL '7' DAY GROUP BY table_id
) s ON s.table_id = t.table_id
WHERE c.commits > 0 OR s.scans > 0

-- name: writer_conflicts --
SELECT coalesce(engine, 'unknown') AS engine, actor, count(*) AS commits, count_if(attempts > 1) AS retried_commits,
  sum(CAST(attempts AS decimal(38, 0)) - 1) AS conflicts,
  CAST(sum(CAST(attempts AS decimal(38, 0)) - 1) AS double) / CAST(sum(CAST(attempts AS decimal(38, 0))) AS double) AS conflict_rate,
  avg(seconds) AS average_seconds
FROM {log}commit_reports
WHERE attempts >= 1
GROUP BY coalesce(engine, 'unknown'), actor

-- name: small_files --
SELECT t.table_id, t.warehouse, t.namespace, t.name, l.data_files, l.bytes, l.delete_files,
  CASE WHEN l.data_files > 0 THEN CAST(l.bytes AS double) / l.data_files END AS average_file_bytes,
  coalesce(p.target_file_bytes, 536870912) AS target_file_bytes,
  greatest(l.data_files - try_cast(ceil(CAST(l.bytes AS double) / coalesce(p.target_file_bytes, 536870912)) AS bigint), 0) AS excess_files
FROM {log}live_tables t
JOIN (
  SELECT table_id,
    max_by(total_data_files, CASE WHEN total_data_files IS NOT NULL THEN position END) AS data_files,
    max_by(total_bytes, CASE WHEN total_bytes IS NOT NULL THEN position END) AS bytes,
    max_by(total_delete_files, CASE WHEN total_delete_files IS NOT NULL THEN position END) AS delete_files
  FROM {log}table_commits GROUP BY table_id
) l ON l.table_id = t.table_id AND l.data_files >= 0 AND l.bytes >= 0
LEFT JOIN (
  SELECT table_id, CASE WHEN target > 0 THEN target END AS target_file_bytes
  FROM (
    SELECT table_id, try_cast(max_by(element_at(properties_set, 'write.target-file-size-bytes'), position) AS bigint) AS target
    FROM {log}table_changes
    WHERE element_at(properties_set, 'write.target-file-size-bytes') IS NOT NULL
      OR cardinality(filter(properties_removed, each -> each = 'write.target-file-size-bytes')) > 0
    GROUP BY table_id
  ) changed
) p ON p.table_id = t.table_id

-- name: table_readers --
SELECT t.table_id, t.warehouse, t.namespace, t.name, coalesce(s.engine, 'unknown') AS engine, s.actor, count(*) AS scans,
  max(s.received_at) AS last_scan_at, sum(CAST(s.data_files AS decimal(38, 0))) AS data_files,
  sum(CAST(s.bytes AS decimal(38, 0))) AS bytes, avg(s.planning_seconds) AS average_planning_seconds
FROM {log}scan_reports s
JOIN {log}live_tables t ON t.table_id = s.table_id
GROUP BY t.table_id, t.warehouse, t.namespace, t.name, coalesce(s.engine, 'unknown'), s.actor

-- name: unused_tables --
SELECT t.table_id, t.warehouse, t.namespace, t.name, c.last_commit_at, s.last_scan_at, c.bytes
FROM {log}live_tables t
LEFT JOIN (
  SELECT table_id, max(CASE WHEN operation IS DISTINCT FROM 'replace' THEN recorded_at END) AS last_commit_at, max_by(total_bytes, CASE WHEN total_bytes IS NOT NULL THEN position END) AS bytes
  FROM {log}table_commits GROUP BY table_id
) c ON c.table_id = t.table_id
LEFT JOIN (SELECT table_id, max(received_at) AS last_scan_at FROM {log}scan_reports GROUP BY table_id) s ON s.table_id = t.table_id
WHERE (c.last_commit_at IS NULL OR c.last_commit_at < current_timestamp - INTERVAL '30' DAY)
  AND (s.last_scan_at IS NULL OR s.last_scan_at < current_timestamp - INTERVAL '30' DAY)

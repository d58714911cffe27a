-- The rows of the report, in a session whose namespace is that of the landed tables.

-- name: summary --
SELECT
  (SELECT count(*) FROM events) AS events,
  (SELECT max(recorded_at) FROM events) AS last_event_at,
  (SELECT count(*) FROM live_tables) AS tables,
  (SELECT count(*) FROM table_commits) AS commits,
  (SELECT sum(CAST(bytes AS decimal(38, 0))) FROM small_files) AS bytes,
  (SELECT count(*) FROM scan_reports) AS scans

-- name: commits_by_day --
SELECT day, sum(commits) AS commits FROM table_growth
WHERE day >= current_date - INTERVAL '{growth_days}' DAY AND commits > 0 GROUP BY day ORDER BY day

-- name: growth --
SELECT warehouse, namespace, name, commits, added_rows, removed_rows, added_bytes, removed_bytes FROM (
  SELECT table_id, max_by(warehouse, day) AS warehouse, max_by(namespace, day) AS namespace, max_by(name, day) AS name, sum(commits) AS commits,
    sum(added_rows) AS added_rows, sum(removed_rows) AS removed_rows, sum(added_bytes) AS added_bytes, sum(removed_bytes) AS removed_bytes
  FROM table_growth WHERE day >= current_date - INTERVAL '{growth_days}' DAY GROUP BY table_id
) t
WHERE commits > 0
ORDER BY coalesce(added_bytes, 0) - coalesce(removed_bytes, 0) DESC, table_id LIMIT {rows_max}

-- name: bytes_by_day --
SELECT g.table_id, g.day, n.warehouse, n.namespace, n.name, g.total_bytes
FROM table_growth g
JOIN (
  SELECT table_id, max_by(warehouse, day) AS warehouse, max_by(namespace, day) AS namespace, max_by(name, day) AS name,
    coalesce(sum(added_bytes), 0) - coalesce(sum(removed_bytes), 0) AS grown
  FROM table_growth WHERE day >= current_date - INTERVAL '{growth_days}' DAY
  GROUP BY table_id ORDER BY grown DESC, table_id LIMIT {growth_tables_max}
) n ON n.table_id = g.table_id
WHERE g.day >= current_date - INTERVAL '{growth_days}' DAY AND g.total_bytes IS NOT NULL ORDER BY n.grown DESC, g.table_id, g.day

-- name: hot_tables --
SELECT * FROM hot_tables ORDER BY commits + scans DESC, table_id LIMIT {rows_max}

-- name: writer_conflicts --
SELECT * FROM writer_conflicts ORDER BY commits DESC, engine, actor LIMIT {rows_max}

-- name: small_files --
SELECT * FROM small_files WHERE excess_files > 0 ORDER BY excess_files DESC, table_id LIMIT {rows_max}

-- name: table_readers --
SELECT * FROM table_readers ORDER BY scans DESC, table_id, engine, actor LIMIT {rows_max}

-- name: unused_tables --
SELECT * FROM unused_tables ORDER BY bytes DESC NULLS LAST, table_id LIMIT {rows_max}

-- name: owns --
SELECT EXISTS (SELECT FROM pg_class c WHERE c.relnamespace = 'icecore'::regnamespace AND c.relowner::regrole = quote_ident(%(role)s)::regrole)
    OR EXISTS (SELECT FROM pg_proc p WHERE p.pronamespace = 'icecore'::regnamespace AND p.proowner::regrole = quote_ident(%(role)s)::regrole)

-- name: rights --
-- Each run resets the rights of the role to these. It can only read the tables that are not named here.
REVOKE ALL ON ALL TABLES IN SCHEMA icecore FROM {role};
REVOKE ALL ON ALL SEQUENCES IN SCHEMA icecore FROM {role};
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA icecore FROM {role};
REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA icecore FROM PUBLIC;
GRANT USAGE ON SCHEMA icecore TO {role};
GRANT SELECT ON ALL TABLES IN SCHEMA icecore TO {role};
-- Only this function writes the log, the read models, claims and Idempotency-Keys. It runs with its owner's rights.
GRANT EXECUTE ON FUNCTION icecore.append(jsonb, bytea[]) TO {role};
-- Expired keys are deleted.
GRANT DELETE ON icecore.idempotency TO {role};
-- Parts of large tables are inserted before their append and closed after it. Their other columns never change.
GRANT INSERT, UPDATE (valid_to), DELETE ON icecore.table_parts TO {role};
GRANT INSERT, UPDATE (abandoned, parts), DELETE ON icecore.preloaded_parts TO {role};
GRANT DELETE ON icecore.part_tombstones TO {role};
-- `append` inserts the rows.
GRANT UPDATE (begun), DELETE ON icecore.old_metadata_files TO {role};
-- Asynchronous read models.
GRANT INSERT, UPDATE ON icecore.warehouse_statistics TO {role};
GRANT INSERT, DELETE ON icecore.search_names TO {role};
GRANT INSERT, UPDATE (objects), DELETE ON icecore.search_terms TO {role};
GRANT UPDATE (notification_id) ON icecore.statistics_tracking, icecore.search_tracking TO {role};
-- Heartbeats.
GRANT INSERT, UPDATE, DELETE ON icecore.task_runs TO {role};
-- Tables that are not derived from the log.
GRANT INSERT, UPDATE ON icecore.secrets, icecore.sinks, icecore.sink_replays TO {role};
GRANT INSERT ON icecore.sink_skips TO {role};
GRANT INSERT, UPDATE, DELETE ON icecore.endpoint_statistics TO {role};
GRANT INSERT, DELETE ON icecore.metrics_reports TO {role}

-- name: owns --
SELECT EXISTS (SELECT FROM pg_class c WHERE c.relnamespace = 'icecore'::regnamespace AND c.relowner::regrole = quote_ident(%(role)s)::regrole)
    OR EXISTS (SELECT FROM pg_proc p WHERE p.pronamespace = 'icecore'::regnamespace AND p.proowner::regrole = quote_ident(%(role)s)::regrole)

-- name: rights --
-- Whatever the role had before: each run leaves it these. A table that is not named here it can only read.
REVOKE ALL ON ALL TABLES IN SCHEMA icecore FROM {role};
REVOKE ALL ON ALL SEQUENCES IN SCHEMA icecore FROM {role};
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA icecore FROM {role};
REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA icecore FROM PUBLIC;
GRANT USAGE ON SCHEMA icecore TO {role};
GRANT SELECT ON ALL TABLES IN SCHEMA icecore TO {role};
-- The log, what is derived from it, claims and Idempotency-Keys are written by this function alone, with its owner's rights.
GRANT EXECUTE ON FUNCTION icecore.append(jsonb, bytea[]) TO {role};
-- Keys are forgotten when their life is over.
GRANT DELETE ON icecore.idempotency TO {role};
-- Parts of large tables are written before their append and closed after it; what is written of them stays as it is.
GRANT INSERT, UPDATE (valid_to), DELETE ON icecore.table_parts TO {role};
GRANT INSERT, UPDATE (given_up, parts), DELETE ON icecore.preloaded_parts TO {role};
GRANT DELETE ON icecore.part_tombstones TO {role};
-- The append adds them.
GRANT UPDATE (begun), DELETE ON icecore.old_metadata_files TO {role};
-- Asynchronous read models.
GRANT INSERT, UPDATE ON icecore.warehouse_statistics TO {role};
GRANT UPDATE (notification_id) ON icecore.statistics_tracking TO {role};
-- Beside the log.
GRANT INSERT, UPDATE ON icecore.secrets, icecore.sinks, icecore.sink_replays TO {role};
GRANT INSERT ON icecore.sink_skips TO {role};
GRANT INSERT, DELETE ON icecore.metrics_reports TO {role}

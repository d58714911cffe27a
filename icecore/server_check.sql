-- name: server_settings --
SELECT current_setting('server_version_num')::integer, current_setting('server_version'), pg_is_in_recovery(),
       current_setting('fsync'), current_setting('synchronous_commit'), current_setting('full_page_writes'),
       current_setting('default_transaction_isolation')

-- name: session --
SELECT pg_backend_pid()

-- name: database_identity --
SELECT pg_postmaster_start_time(), oid FROM pg_database WHERE datname = current_database()

-- name: may_set_up --
-- Whether the role may create the schema, or owns it.
SELECT coalesce((SELECT pg_has_role(nspowner, 'usage') FROM pg_namespace WHERE nspname = 'icecore'),
                has_database_privilege(current_database(), 'create'))

-- name: unlimited --
SELECT name FROM pg_settings WHERE name IN ('lock_timeout', 'statement_timeout') AND setting = '0' ORDER BY name

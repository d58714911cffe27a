-- name: lift_time_limits --
-- Those of the session or, local, of the transaction; some are newer than the oldest Postgres that is served.
select set_config(name, '0', %(local)s) from pg_settings
where name in ('statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout', 'transaction_timeout')

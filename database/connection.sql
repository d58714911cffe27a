-- name: lift_time_limits --
-- Settings of the session or, if local, of the transaction. The oldest supported Postgres lacks some of them.
select set_config(name, '0', %(local)s) from pg_settings
where name in ('statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout', 'transaction_timeout')

-- name: end_when_idle --
select set_config('idle_session_timeout', %(limit)s, false)

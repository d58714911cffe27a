-- name: role --
select current_user, has_function_privilege('icecore.append(jsonb, bytea[])', 'execute'),
       current_setting('transaction_read_only')::boolean

-- name: clock --
select clock_timestamp()

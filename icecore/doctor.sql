-- name: role --
select current_user, has_function_privilege('icecore.append(jsonb, bytea[])', 'execute')

-- name: clock --
select clock_timestamp()

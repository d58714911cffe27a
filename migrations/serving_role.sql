-- name: rights --
-- Whatever the role had before: each run leaves it these.
REVOKE ALL ON ALL TABLES IN SCHEMA icecore FROM {role};
GRANT USAGE ON SCHEMA icecore TO {role};
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA icecore TO {role};
GRANT USAGE ON ALL SEQUENCES IN SCHEMA icecore TO {role};
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA icecore TO {role};
REVOKE UPDATE, DELETE ON icecore.events, icecore.commands FROM {role};
REVOKE INSERT, UPDATE, DELETE ON icecore.migrations FROM {role}

-- name: rights_to_analyze --
-- A rebuild leaves fresh statistics behind.
GRANT MAINTAIN ON ALL TABLES IN SCHEMA icecore TO {role}

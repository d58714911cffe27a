-- name: exists --
SELECT to_regclass('icecore.migrations') IS NOT NULL

-- name: recorded --
-- Builds from before the first release recorded no functions.
SELECT number, name, checksum, to_jsonb(m)->>'functions' FROM icecore.migrations m ORDER BY number

-- name: create_schema --
-- The search path applies to the transaction: objects that a migration creates without a schema are created in icecore.
CREATE SCHEMA IF NOT EXISTS icecore;
SET LOCAL search_path TO icecore, pg_temp;
CREATE TABLE IF NOT EXISTS icecore.migrations (
    number     integer     PRIMARY KEY,
    name       text        NOT NULL,
    checksum   text        NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now(),
    functions  text        NOT NULL
)

-- name: close_functions --
-- The server role may execute only `append` (migrations/serving_role.sql).
REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA icecore FROM PUBLIC

-- name: record --
INSERT INTO icecore.migrations (number, name, checksum, functions) VALUES (%s, %s, %s, %s)

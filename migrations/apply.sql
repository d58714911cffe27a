-- name: exists --
SELECT to_regclass('icecore.migrations') IS NOT NULL

-- name: recorded --
SELECT number, name, checksum FROM icecore.migrations ORDER BY number

-- name: create_schema --
-- The search path holds for the transaction: what a migration creates without a schema lands in icecore.
CREATE SCHEMA IF NOT EXISTS icecore;
SET LOCAL search_path TO icecore, pg_temp;
CREATE TABLE IF NOT EXISTS icecore.migrations (
    number     integer     PRIMARY KEY,
    name       text        NOT NULL,
    checksum   text        NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
)

-- name: record --
INSERT INTO icecore.migrations (number, name, checksum) VALUES (%s, %s, %s)

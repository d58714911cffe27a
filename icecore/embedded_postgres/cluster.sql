-- name: database_exists --
SELECT EXISTS (SELECT FROM pg_database WHERE datname = %s)

-- name: create_database --
CREATE DATABASE icecore

-- name: role_exists --
SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = %s)

-- name: create_role --
CREATE ROLE icecore LOGIN

-- name: server_id --
select server_id from icecore.server

-- name: register --
-- Inserted before the first part, so that every part belongs to a row.
insert into icecore.preloaded_parts (table_id, generation, registered_at)
select %(table_id)s, generation, now() from icecore.read_models
returning generation

-- name: write --
-- Does not wait for the disk, which would delay other commits. A crash may lose these rows until `complete` has committed.
insert into icecore.table_parts (generation, table_id, kind, ordinal, valid_from, valid_to, snapshot_id, body)
select %(generation)s, %(table_id)s, p.kind, p.ordinal, p.valid_from, null, p.snapshot_id, p.body
from unnest(%(kind)s::smallint[], %(ordinal)s::bigint[], %(valid_from)s::bigint[], %(snapshot_id)s::bigint[], %(body)b::bytea[])
  p(kind, ordinal, valid_from, snapshot_id, body), set_config('synchronous_commit', 'off', true)

-- name: complete --
-- Records the number of parts if all of them exist. It commits after them and waits for the disk, so that a crash loses none of them from
-- here on. `append` requires the recorded number.
update icecore.preloaded_parts s set parts = %(parts)s
where s.table_id = %(table_id)s and s.generation = %(generation)s and not s.abandoned
  and %(parts)s = (select count(*) from icecore.table_parts p where p.generation = %(generation)s and p.table_id = %(table_id)s)

-- name: abandon --
-- If an append is deleting the row, this statement waits for it and then finds no row.
update icecore.preloaded_parts set abandoned = true where table_id = %(table_id)s
returning generation

-- name: abandon_old --
update icecore.preloaded_parts set abandoned = true
where abandoned or registered_at < now() - make_interval(secs => %(seconds)s)
returning table_id, generation

-- name: remove --
delete from icecore.table_parts p
where p.ctid = any (array(
  select q.ctid from icecore.table_parts q where q.generation = %(generation)s and q.table_id = %(table_id)s limit %(limit)s))

-- name: forget --
-- Deleted last: if the process stops before, another one finds the row and finishes the work.
delete from icecore.preloaded_parts where table_id = %(table_id)s and generation = %(generation)s and abandoned

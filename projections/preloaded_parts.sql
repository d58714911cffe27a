-- name: register --
-- Before the first part, so that no part is there of which nobody knows.
insert into icecore.preloaded_parts (table_id, generation, staged_at)
select %(table_id)s, generation, now() from icecore.read_models
returning generation

-- name: write --
-- Without a flush of its own, which would hold up others' flushes: a crash may lose these rows until `complete` has committed.
insert into icecore.table_parts (generation, table_id, kind, ordinal, valid_from, valid_to, snapshot_id, body)
select %(generation)s, %(table_id)s, p.kind, p.ordinal, p.valid_from, null, p.snapshot_id, p.body
from unnest(%(kind)s::smallint[], %(ordinal)s::bigint[], %(valid_from)s::bigint[], %(snapshot_id)s::bigint[], %(body)b::bytea[])
  p(kind, ordinal, valid_from, snapshot_id, body), set_config('synchronous_commit', 'off', true)

-- name: complete --
-- Records how many parts there are, if all are still there. It commits after they did and waits for the disk, so from here on a crash
-- loses none of them; append takes over only as many as are recorded here.
update icecore.preloaded_parts s set parts = %(parts)s
where s.table_id = %(table_id)s and s.generation = %(generation)s and not s.given_up
  and %(parts)s = (select count(*) from icecore.table_parts p where p.generation = %(generation)s and p.table_id = %(table_id)s)

-- name: give_up --
-- Waits for an append that is about to take it, and then finds nothing.
update icecore.preloaded_parts set given_up = true where table_id = %(table_id)s
returning generation

-- name: give_up_old --
update icecore.preloaded_parts set given_up = true
where given_up or staged_at < now() - make_interval(secs => %(seconds)s)
returning table_id, generation

-- name: remove --
delete from icecore.table_parts p
where p.ctid = any (array(
  select q.ctid from icecore.table_parts q where q.generation = %(generation)s and q.table_id = %(table_id)s limit %(limit)s))

-- name: forget --
-- Last: until then whoever finds the row finishes the work.
delete from icecore.preloaded_parts where table_id = %(table_id)s and generation = %(generation)s and given_up

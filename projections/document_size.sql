-- name: document_size --
-- The size of a table's or view's document as of a version of its stream. Parts that a tombstone closes are counted.
select coalesce(
  (select octet_length(t.head) + coalesce((
     select sum(octet_length(a.body)) from icecore.table_parts a
     where a.generation = t.generation and a.table_id = t.table_id and a.valid_from <= t.version and (a.valid_to is null or a.valid_to > t.version)), 0)
   from icecore.tables t
   where t.generation = (select generation from icecore.read_models) and t.table_id = %(object_id)s and t.version <= %(version)s
   order by t.version desc limit 1),
  (select octet_length(v.document) from icecore.views v
   where v.generation = (select generation from icecore.read_models) and v.view_id = %(object_id)s and v.version <= %(version)s
   order by v.version desc limit 1),
  0)::bigint

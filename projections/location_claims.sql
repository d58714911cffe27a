-- name: taken --
-- The rule of icecore.write_claims for tables and views, checked early by commands that read or write files before the append.
select 1 from icecore.location_claims l
where ((l.key = any (%(around)s::text[]) and l.kind = 'tabular') or (l.key >= %(key)s and l.key < %(behind)s))
  and l.owner is distinct from %(owner)s::uuid
limit 1

-- name: taken --
-- The rule of icecore.write_claims, for a command that must not begin where it would be refused at its end.
select 1 from icecore.location_claims l
where (l.key = any (%(around)s::text[]) or (l.key >= %(key)s and l.key < %(behind)s)) and l.owner is distinct from %(owner)s::uuid
limit 1

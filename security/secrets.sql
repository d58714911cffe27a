-- name: insert_secret --
insert into icecore.secrets (id, project_id, version, key_id, nonce, ciphertext)
values (%(id)s, %(project_id)s, %(version)s, %(key_id)s, %(nonce)s, %(ciphertext)s)

-- name: select_secret --
select version, key_id, nonce, ciphertext
  from icecore.secrets
 where id = %(id)s and project_id = %(project_id)s

-- name: has_secrets --
select to_regclass('icecore.secrets') is not null

-- name: count_by_key --
select key_id, count(*)
  from icecore.secrets
 where destroyed_at is null
 group by key_id

-- name: select_of_other_keys --
select id, project_id, version, key_id, nonce, ciphertext
  from icecore.secrets
 where destroyed_at is null and key_id <> %(key_id)s and id > %(after)s
 order by id
 limit %(secrets_max)s

-- name: rewrap_secret --
-- Only the ciphertext that was read: the secret may have been destroyed, or encrypted by another command, meanwhile.
update icecore.secrets
   set version = version + 1, key_id = %(key_id)s, nonce = %(nonce)s, ciphertext = %(ciphertext)s
 where id = %(id)s and version = %(version)s and destroyed_at is null

-- name: destroy_secret --
update icecore.secrets
   set nonce = null, ciphertext = null, destroyed_at = now()
 where id = %(id)s and project_id = %(project_id)s and destroyed_at is null

-- name: destroy_unnamed --
update icecore.secrets
   set nonce = null, ciphertext = null, destroyed_at = now()
 where project_id = %(project_id)s and destroyed_at is null and id <> all(%(named)s::uuid[])
   and created_at < now() - make_interval(secs => %(age_seconds_min)s)

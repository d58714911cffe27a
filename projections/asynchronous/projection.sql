-- name: move --
update {table} set notification_id = %(position)s where application_name = %(application_name)s and notification_id = %(before)s

-- name: set --
-- Also inserts a missing row.
insert into {table} values (%(application_name)s, %(position)s)
on conflict (application_name) do update set notification_id = excluded.notification_id

-- name: remove_others --
delete from {table} where application_name <> %(application_name)s

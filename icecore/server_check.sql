-- name: server_settings --
SELECT current_setting('server_version_num')::integer, current_setting('server_version'), pg_is_in_recovery(),
       current_setting('fsync'), current_setting('synchronous_commit'), current_setting('full_page_writes'),
       current_setting('default_transaction_isolation')

-- Unfinished purges are found by an index of their own. The index it replaces holds every purge that there ever was.

create index tasks_unfinished_purges_idx on icecore.tasks (generation, from_position) where queue = 'tabular_purge' and to_position is null;
drop index icecore.tables_purging_idx;

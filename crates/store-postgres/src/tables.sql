-- The tables of the store. Run in one transaction, under a lock that serializes processes.

create table if not exists ashlar_record (
    key bytea primary key,
    value bytea not null
) with (
    -- Most records are written once. New versions of the others go to the pages of new records.
    fillfactor = 100,
    -- Two rows fit a page: small contents are stored with their records, larger ones out of line
    -- (TOAST).
    toast_tuple_target = 4080,
    autovacuum_vacuum_scale_factor = 0.05,
    toast.autovacuum_vacuum_scale_factor = 0.05
);
-- Contents are compressed already, or are not worth compressing.
alter table ashlar_record alter column key set storage plain, alter column value set storage external;

create table if not exists ashlar_counter (
    key bytea primary key,
    value bigint not null
) with (
    -- Free space for new versions of rows that every batch changes. Most rows soon stop changing.
    fillfactor = 90,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);
alter table ashlar_counter alter column key set storage plain;

-- One row for each batch that changed records, with the number of its transaction.
create table if not exists ashlar_change (
    xid xid8 primary key default pg_current_xact_id(),
    keys bytea not null
) with (
    toast_tuple_target = 8160,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_insert_threshold = -1,
    autovacuum_vacuum_cost_delay = 0,
    toast.autovacuum_vacuum_scale_factor = 0,
    toast.autovacuum_vacuum_threshold = 1000,
    toast.autovacuum_vacuum_cost_delay = 0
);
alter table ashlar_change alter column keys set storage external;

-- One row: the format, a unique name of the store, and the position up to which the feed was
-- trimmed.
create table if not exists ashlar_store (
    only_row boolean primary key default true check (only_row),
    format int not null,
    identity uuid not null default gen_random_uuid(),
    trimmed xid8
);
insert into ashlar_store (format) values (1) on conflict do nothing;

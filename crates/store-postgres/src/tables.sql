-- What the store keeps. Run in one transaction, under a lock that makes processes take turns.

create table if not exists ashlar_record (
    key bytea primary key,
    value bytea not null
) with (
    -- Most records are written once. New versions of the few others go where new records go.
    fillfactor = 100,
    -- Two rows fit a page: small contents lie beside their records, larger ones in rows of their own.
    toast_tuple_target = 4080,
    autovacuum_vacuum_scale_factor = 0.05,
    toast.autovacuum_vacuum_scale_factor = 0.05
);
-- Contents are compressed already, or not worth it.
alter table ashlar_record alter column key set storage plain, alter column value set storage external;

create table if not exists ashlar_counter (
    key bytea primary key,
    value bigint not null
) with (
    -- Some room for new versions of rows that every batch changes. Most rows soon stop changing.
    fillfactor = 90,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);
alter table ashlar_counter alter column key set storage plain;

-- One row for each batch that changed records, under the number of its transaction.
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

-- One row: the format, a name that no other store has, and up to where the feed was trimmed.
create table if not exists ashlar_store (
    only_row boolean primary key default true check (only_row),
    format int not null,
    identity uuid not null default gen_random_uuid(),
    trimmed xid8
);
insert into ashlar_store (format) values (1) on conflict do nothing;

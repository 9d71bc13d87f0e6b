-- Commits a batch whose guards all hold and which needs no order among its plans; answers false,
-- and has changed nothing, if that is not so. It is the usual commit, and does not ask what else
-- might be: that is what `commit.sql` is for, which is called next.
--
-- It must be volatile and run under READ COMMITTED: only then does each statement in here see what
-- was committed while the locks were waited for.
--
-- Keys of records stand in ascending order in each list, none twice: `e` equal a value, `h` are
-- held, `a` are absent, among them all that are put without having been looked at; `u` are there
-- and get other values, `n` are new, `d` are deleted. A counter becomes what it was and `add`, and at
-- least `floor`; they stand in the order in which `commit.sql` changes them.
--
-- Lists are looked up in by index, and values found by their keys' places, so that there is one way
-- to carry out each statement, whatever the planner believes of the tables. Where rows are made of
-- lists, `unnest` stands in the select list: in `from` it would copy each value into a row first.
create function ashlar_commit_whole_2(
    lock_hash int[], lock_exclusive boolean[],
    e_key bytea[], e_value bytea[], h_key bytea[], a_key bytea[],
    u_key bytea[], u_value bytea[], n_key bytea[], n_value bytea[], d_key bytea[],
    t_key bytea[], t_add bigint[], t_floor bigint[],
    entry bytea)
returns boolean
language plpgsql volatile as $$
#variable_conflict use_column
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception 'a commit needs READ COMMITTED' using errcode = '25001';
    end if;
    -- The same locks as in `commit.sql`, for the same reasons.
    perform case when l.exclusive
            then pg_advisory_xact_lock('ashlar_record'::regclass::oid::int, l.hash)
            else pg_advisory_xact_lock_shared('ashlar_record'::regclass::oid::int, l.hash) end
        from (select unnest(lock_hash) as hash, unnest(lock_exclusive) as exclusive) l;

    if array(select r.value from ashlar_record r where r.key = any (e_key)
                order by r.key) <> e_value
            or array(select r.key from ashlar_record r where r.key = any (h_key || a_key)
                order by r.key) <> h_key then
        return false;
    end if;

    if cardinality(u_key) > 0 then
        update ashlar_record r set value = u_value[array_position(u_key, r.key)]
            where r.key = any (u_key);
    end if;
    if cardinality(n_key) > 0 then
        insert into ashlar_record (key, value)
            select unnest(n_key), unnest(n_value);
    end if;
    if cardinality(d_key) > 0 then
        delete from ashlar_record r where r.key = any (d_key);
    end if;

    -- Row after row, as they stand in the list, so that batches do not block each other in a circle.
    -- Sums stay far enough inside the type that the next one cannot leave it; `greatest` passes over
    -- what is null.
    if cardinality(t_key) > 0 then
        insert into ashlar_counter as t (key, value)
            select n.key, greatest(n.number, n.floor)
                from (select unnest(t_key) as key, unnest(t_add) as number,
                             unnest(t_floor) as floor) n
            on conflict (key) do update set value = greatest(
                least(t.value + t_add[array_position(t_key, t.key)], 1::bigint << 61),
                -(1::bigint << 61), t_floor[array_position(t_key, t.key)]);
    end if;

    if octet_length(entry) > 0 then
        insert into ashlar_change (keys) values (entry);
    end if;
    return true;
end $$;

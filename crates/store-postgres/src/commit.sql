-- Commits a batch if all of its conditions hold. Returns null then. Otherwise returns, without
-- changing anything, each record that differs from the condition on it: its key and its value, or
-- null if it does not exist. The list is empty if only a range is not empty. The client then
-- decides the batch again.
--
-- The function must be volatile and run under READ COMMITTED. Only then does each statement in it
-- see the commits that happened while it waited for the locks.
--
-- In each list the keys of records have no duplicates, and those of `e` and `h` are in ascending
-- order. The records of `e` must equal a value, those of `h` must exist, and those of `a` must not.
-- The ranges `r` must be empty. The records of `u` are updated, those of `n` inserted, those of `d`
-- deleted. A counter becomes the sum of its value and `add`, but at least `floor`; those of `set`
-- get a number, and those of `clear` are deleted. Counters of `bound` may then not exceed a number.
-- They are among the counters and are therefore locked with them; if one exceeds its number, the
-- error undoes everything.
--
-- Tables are searched by index, and values are found by the positions of their keys. So each
-- statement has only one plan, independent of the planner's statistics. `unnest` is in the select
-- list because in `from` it would copy each value into a row first.
create function ashlar_commit_3(
    lock_hash int[], lock_exclusive boolean[],
    e_key bytea[], e_value bytea[], h_key bytea[], a_key bytea[], r_start bytea[], r_end bytea[],
    u_key bytea[], u_value bytea[], n_key bytea[], n_value bytea[], d_key bytea[],
    counter_key bytea[], counter_add bigint[], counter_floor bigint[],
    set_key bytea[], set_number bigint[], clear_key bytea[],
    bound_key bytea[], bound_most bigint[],
    entry bytea)
returns bytea[]
language plpgsql volatile as $$
#variable_conflict use_column
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception 'a commit needs READ COMMITTED' using errcode = '25001';
    end if;
    -- One lock for each key, in the same order everywhere, so that batches do not deadlock. The oid
    -- of the table keeps other stores and other programs apart.
    perform case when l.exclusive
            then pg_advisory_xact_lock('ashlar_record'::regclass::oid::int, l.hash)
            else pg_advisory_xact_lock_shared('ashlar_record'::regclass::oid::int, l.hash) end
        from (select unnest(lock_hash) as hash, unnest(lock_exclusive) as exclusive) l;

    if array(select r.value from ashlar_record r where r.key = any (e_key)
                order by r.key) <> e_value
            or array(select r.key from ashlar_record r where r.key = any (h_key || a_key)
                order by r.key) <> h_key then
        -- `limit` keeps the planner from going through a table that was small when it planned.
        return array(
            select unnest(array[q.key, r.value])
                from (select unnest(e_key || a_key) as key,
                             unnest(e_value || array_fill(null::bytea, array[cardinality(a_key)]))
                                 as value) q
                left join lateral (
                    select s.value from ashlar_record s where s.key = q.key limit 1) r on true
                where r.value is distinct from q.value
            union all
            select unnest(array[q.key, null])
                from (select unnest(h_key) as key) q
                where not exists (select from ashlar_record s where s.key = q.key));
    end if;
    for at in 1 .. cardinality(r_start) loop
        perform from ashlar_record r where r.key >= r_start[at] and r.key < r_end[at]
            order by r.key limit 1;
        if found then
            return '{}';
        end if;
    end loop;

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

    -- Row by row in the order of the list, so that batches do not deadlock. Sums stay so far within
    -- the type that the next one cannot overflow. `greatest` ignores nulls.
    if cardinality(counter_key) > 0 then
        insert into ashlar_counter as t (key, value)
            select n.key, greatest(n.number, n.floor)
                from (select unnest(counter_key) as key, unnest(counter_add) as number,
                             unnest(counter_floor) as floor) n
            on conflict (key) do update set value = greatest(
                least(t.value + counter_add[array_position(counter_key, t.key)], 1::bigint << 61),
                -(1::bigint << 61), counter_floor[array_position(counter_key, t.key)]);
    end if;
    if cardinality(set_key) > 0 then
        insert into ashlar_counter (key, value)
            select unnest(set_key), unnest(set_number)
            on conflict (key) do update set value = excluded.value;
    end if;
    if cardinality(clear_key) > 0 then
        delete from ashlar_counter t where t.key = any (clear_key);
    end if;

    if cardinality(bound_key) > 0 and exists (
            select from ashlar_counter t where t.key = any (bound_key)
                and t.value > bound_most[array_position(bound_key, t.key)]) then
        raise exception 'a counter would exceed its bound' using errcode = 'ASH01';
    end if;

    if octet_length(entry) > 0 then
        insert into ashlar_change (keys) values (entry);
    end if;
    return null;
end $$;

-- Decides a batch of plans and writes the result, in one statement that is a transaction of its
-- own.
--
-- The function must be volatile and run under READ COMMITTED. Only then does each statement in it
-- see the commits that happened while it waited for the locks.
--
-- The batch is split into conflict waves: the plans of one wave do not write a record that another
-- plan of the wave guards or writes, so a wave is decided at once. `ends` has four numbers for each
-- wave: the ends of its conditions, members, puts and deletes. A condition is one guard, or several
-- equal guards; a member is a pair of a plan and a condition that the plan needs. Kinds of
-- conditions: 0 equals, 1 absent, 2 present, 3 empty. Plans and conditions are numbered from 0.
--
-- No guard of such a batch names a counter, so counters come last, in the order of their keys, each
-- row once. Kinds: 0 add and 1 raise, if these are the only changes of the key in this batch; 2 set
-- and 3 clear likewise; 10 to 13 the same kinds for all other keys, one after the other.
create function ashlar_commit_2(
    lock_hash int[], lock_exclusive boolean[], ends int[],
    c_kind int[], c_key bytea[], c_arg bytea[],
    m_plan int[], m_condition int[],
    p_plan int[], p_key bytea[], p_value bytea[],
    d_plan int[], d_key bytea[],
    counter_plan int[], counter_kind int[], counter_key bytea[], counter_number bigint[], counter_kinds int,
    pieces bytea[],
    out failed int[], out met bytea[])
language plpgsql volatile as $$
#variable_conflict use_column
declare
    c_from int := 0; m_from int := 0; p_from int := 0; d_from int := 0;
    c_to int; m_to int; p_to int; d_to int;
    failed_now int[]; met_now bytea[];
    refused int[] := '{}';
    step record;
    entry bytea;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception 'a commit needs READ COMMITTED' using errcode = '25001';
    end if;
    failed := '{}';
    met := '{}';
    -- One lock for each key, in the same order everywhere, so that batches do not deadlock. The oid of the
    -- table keeps other stores and other programs apart.
    perform case when l.exclusive
            then pg_advisory_xact_lock('ashlar_record'::regclass::oid::int, l.hash)
            else pg_advisory_xact_lock_shared('ashlar_record'::regclass::oid::int, l.hash) end
        from unnest(lock_hash, lock_exclusive) as l(hash, exclusive);

    for r in 1 .. cardinality(ends) / 4 loop
        c_to := ends[4 * r - 3]; m_to := ends[4 * r - 2];
        p_to := ends[4 * r - 1]; d_to := ends[4 * r];
        select array_agg(c_from + c.at::int - 1),
               array_agg(case when c.kind < 2 then held.value end)
            into failed_now, met_now
            from unnest(c_kind[c_from + 1 : c_to], c_key[c_from + 1 : c_to],
                        c_arg[c_from + 1 : c_to]) with ordinality as c(kind, key, arg, at)
            -- `limit` keeps the planner from going through a table that was small when it planned.
            left join lateral (
                select r.key, r.value from ashlar_record r where r.key = c.key limit 1) held on true
            where case c.kind
                when 0 then held.value is distinct from c.arg
                when 1 then held.key is not null
                when 2 then held.key is null
                else exists (select from ashlar_record e where e.key >= c.key and e.key < c.arg)
                end;
        if failed_now is not null then
            failed := failed || failed_now;
            met := met || met_now;
            refused := refused || array(
                select distinct m.plan
                    from unnest(m_plan[m_from + 1 : m_to], m_condition[m_from + 1 : m_to])
                        as m(plan, condition)
                    where m.condition = any (failed_now));
        end if;
        if p_to > p_from then
            insert into ashlar_record (key, value)
                select p.key, p.value
                    from unnest(p_plan[p_from + 1 : p_to], p_key[p_from + 1 : p_to],
                                p_value[p_from + 1 : p_to]) as p(plan, key, value)
                    where p.plan <> all (refused)
                on conflict (key) do update set value = excluded.value;
        end if;
        if d_to > d_from then
            delete from ashlar_record where key = any (array(
                select d.key
                    from unnest(d_plan[d_from + 1 : d_to], d_key[d_from + 1 : d_to]) as d(plan, key)
                    where d.plan <> all (refused)));
        end if;
        c_from := c_to; m_from := m_to; p_from := p_to; d_from := d_to;
    end loop;

    -- Sums stay so far within the type that the next one cannot overflow.
    if counter_kinds & 1 > 0 then
        insert into ashlar_counter as t (key, value)
            select a.key, greatest(least(sum(a.number), 1::bigint << 61), -(1::bigint << 61))::bigint
                from unnest(counter_plan, counter_kind, counter_key, counter_number) as a(plan, kind, key, number)
                where a.kind = 0 and a.plan <> all (refused)
                group by a.key having sum(a.number) <> 0 order by a.key
            on conflict (key) do update set value =
                greatest(least(t.value + excluded.value, 1::bigint << 61), -(1::bigint << 61));
    end if;
    if counter_kinds & 2 > 0 then
        insert into ashlar_counter as t (key, value)
            select a.key, max(a.number)
                from unnest(counter_plan, counter_kind, counter_key, counter_number) as a(plan, kind, key, number)
                where a.kind = 1 and a.plan <> all (refused)
                group by a.key order by a.key
            on conflict (key) do update set value = excluded.value where t.value < excluded.value;
    end if;
    if counter_kinds & 4 > 0 then
        insert into ashlar_counter as t (key, value)
            select a.key, a.number
                from unnest(counter_plan, counter_kind, counter_key, counter_number) as a(plan, kind, key, number)
                where a.kind = 2 and a.plan <> all (refused) order by a.key
            on conflict (key) do update set value = excluded.value;
    end if;
    if counter_kinds & 8 > 0 then
        delete from ashlar_counter where key = any (array(
            select a.key from unnest(counter_plan, counter_kind, counter_key) as a(plan, kind, key)
                where a.kind = 3 and a.plan <> all (refused) order by a.key));
    end if;
    if counter_kinds & 16 > 0 then
        for step in
            select a.kind, a.key, a.number
                from unnest(counter_plan, counter_kind, counter_key, counter_number) with ordinality
                    as a(plan, kind, key, number, at)
                where a.kind >= 10 and a.plan <> all (refused) order by a.key, a.at
        loop
            if step.kind = 10 then
                insert into ashlar_counter as t (key, value) values (step.key, step.number)
                    on conflict (key) do update set value = greatest(
                        least(t.value + excluded.value, 1::bigint << 61), -(1::bigint << 61));
            elsif step.kind = 11 then
                insert into ashlar_counter as t (key, value)
                    values (step.key, greatest(step.number, 0))
                    on conflict (key) do update set value = greatest(t.value, step.number);
            elsif step.kind = 12 then
                insert into ashlar_counter as t (key, value) values (step.key, step.number)
                    on conflict (key) do update set value = excluded.value;
            else
                delete from ashlar_counter where key = step.key;
            end if;
        end loop;
    end if;

    if cardinality(pieces) > 0 then
        select string_agg(p.piece, '') into entry
            from unnest(pieces) with ordinality as p(piece, at)
            where p.at::int - 1 <> all (refused);
        if octet_length(entry) > 0 then
            insert into ashlar_change (keys) values (entry);
        end if;
    end if;
end $$;

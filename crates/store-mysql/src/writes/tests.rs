use std::collections::BTreeMap;

use store::{Batch, CounterKey, Guard, Key, Plan, Space, Value, Verdict, Write};

use super::{RowState, Writes};
use crate::script::Script;

fn key(suffix: &str) -> Key {
    Key::new(Space(b'd'), 0, suffix.as_bytes())
}

/// Returns the statements of one committed plan, with keys by their suffixes. Keys that begin with
/// `p` exist, those that begin with `a` are absent, others were not read.
fn statements(plan: &Plan) -> Vec<String> {
    let state = |key: &Key| match key.suffix().first() {
        Some(b'p') => RowState::Present,
        Some(b'a') => RowState::Absent,
        _ => RowState::Unseen,
    };
    let mut batch = Batch::new([plan].into_iter());
    let value = |key: &Key| (state(key) == RowState::Present).then(Value::new);
    let found = batch.records().map(value).collect();
    batch.set_found(found, Vec::new(), Vec::new());
    assert_eq!(batch.decide(plan), Verdict::Committed);
    let counters = store::counter_changes([plan]);
    let absent: Vec<&Key> = batch.records().filter(|key| state(key) == RowState::Absent).collect();
    let ranges = batch.ranges().map(|(start, end, _)| (start, end, batch.count_in(start, end)));
    let writes = Writes::new(&batch, &counters, &absent, ranges.collect(), state);
    let mut script = Script::default();
    writes.add_to(&mut script);
    let prefix = ["x'64", &"0".repeat(16)].concat();
    script.texts().map(|text| text.replace(&prefix, "x'")).collect()
}

fn put(suffix: &str) -> Write {
    Write::Put(key(suffix), Value::from_static(b"v"))
}

#[test]
fn absent_records_are_inserted_without_overwriting() {
    let plan = Plan { guards: vec![Guard::Absent(key("a"))], writes: vec![put("a")] };
    assert_eq!(statements(&plan), ["INSERT INTO ashlar_record VALUES (x'61',x'76')"]);
}

#[test]
fn present_and_unread_records_are_overwritten() {
    let plan = Plan { guards: vec![Guard::Present(key("p"))], writes: vec![put("p"), put("u")] };
    let expected = "INSERT INTO ashlar_record VALUES (x'70',x'76'),(x'75',x'76') \
                    ON DUPLICATE KEY UPDATE v = VALUES(v)";
    assert_eq!(statements(&plan), [expected]);
}

#[test]
fn a_placeholder_locks_an_absent_key() {
    let plan = Plan { guards: vec![Guard::Absent(key("a"))], writes: vec![put("u")] };
    let all = statements(&plan);
    assert_eq!(all.len(), 3, "{all:?}");
    assert_eq!(all[0], "INSERT INTO ashlar_record VALUES (x'61',x'')");
    assert_eq!(all[2], "DELETE FROM ashlar_record WHERE k = x'61'");
    // The same holds for the absence of a record that is deleted.
    let plan = Plan { guards: Vec::new(), writes: vec![Write::Delete(key("a")), put("u")] };
    assert_eq!(statements(&plan), all);
}

/// The statement inserts the second record of the range, if there is one, and then fails: the plan
/// itself leaves one record there.
#[test]
fn an_empty_range_is_looked_at_again_after_absent_keys_are_locked() {
    let guards = vec![Guard::Absent(key("a")), Guard::Empty(key("b"), key("c"))];
    let all = statements(&Plan { guards, writes: vec![put("b1")] });
    let again = "INSERT INTO ashlar_record (SELECT k, v FROM ashlar_record FORCE INDEX (PRIMARY) \
                 WHERE k >= x'62' AND k < x'63' ORDER BY k LIMIT 1 OFFSET 1 LOCK IN SHARE MODE)";
    assert_eq!(all.last().map(String::as_str), Some(again), "{all:?}");
    assert_eq!(all[0], "INSERT INTO ashlar_record VALUES (x'61',x'')", "{all:?}");
}

#[test]
fn deletions_search_each_key_by_index() {
    let deletes = ["p1", "p2"].map(|suffix| Write::Delete(key(suffix)));
    let plan = Plan { guards: Vec::new(), writes: deletes.to_vec() };
    let expected = "DELETE r FROM (SELECT x'7031' AS k UNION ALL SELECT x'7032' AS k) q \
         STRAIGHT_JOIN ashlar_record r FORCE INDEX (PRIMARY) ON r.k = q.k";
    assert_eq!(statements(&plan), [expected]);
}

#[test]
fn counters_that_do_not_change_are_not_written() {
    let plan = Plan {
        guards: Vec::new(),
        writes: vec![Write::Add(CounterKey(key("t")), 0), Write::Max(CounterKey(key("m")), 5)],
    };
    let expected = "INSERT INTO ashlar_counter VALUES (x'6d',5) \
                    ON DUPLICATE KEY UPDATE n = GREATEST(n, VALUES(n))";
    assert_eq!(statements(&plan), [expected]);
}

#[test]
fn a_batch_without_changes_is_empty() {
    let plan = Plan { guards: vec![Guard::Absent(key("a"))], writes: Vec::new() };
    let batch = Batch::new([&plan].into_iter());
    let none = BTreeMap::new();
    assert!(Writes::new(&batch, &none, &[], Vec::new(), |_| RowState::Absent).is_empty());
}

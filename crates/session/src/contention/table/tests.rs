use bytes::Bytes;

use super::*;

fn key(name: &str) -> Key {
    record::key::dentry(record::Ino::ROOT, name.as_bytes())
}

fn puts(names: &[&str]) -> Plan {
    let value = Bytes::from_static(b"v");
    let writes = names.iter().map(|name| Write::Put(key(name), value.clone())).collect();
    Plan { guards: Vec::new(), writes }
}

fn absent(name: &str) -> Guard {
    Guard::Absent(key(name))
}

#[test]
fn a_plan_waits_for_the_latest_earlier_reservation() {
    let table = Table::default();
    assert!(table.is_empty());
    let first = table.join(&[absent("a"), absent("b")], false).unwrap();
    let second = table.join(&[absent("b")], false).unwrap();
    assert!(table.earlier(&puts(&["c"]), None).is_none(), "c is free");
    assert!(table.earlier(&puts(&["a", "b"]), Some(first)).is_none(), "the first waits for none");
    let after_first = table.earlier(&puts(&["b"]), Some(second)).unwrap();
    let after_both = table.earlier(&puts(&["b"]), None).unwrap();
    table.leave(first);
    assert!(after_first.ended.is_cancelled() && !after_both.ended.is_cancelled());
    assert!(table.earlier(&puts(&["a"]), None).is_none());
    table.leave(second);
    assert!(after_both.ended.is_cancelled() && table.is_empty());
}

#[test]
fn a_reserved_range_delays_writes_into_it() {
    let table = Table::default();
    let place = table.join(&[Guard::Empty(key("d"), key("f"))], false).unwrap();
    for (name, waits) in [("c", false), ("d", true), ("e", true), ("f", false)] {
        assert_eq!(table.earlier(&puts(&["a", name, "z"]), None).is_some(), waits, "{name}");
    }
    let later = table.join(&[absent("e")], false).unwrap();
    let earlier = table.earlier(&puts(&["e"]), None).unwrap();
    table.leave(later);
    assert!(earlier.ended.is_cancelled(), "the record's reservation is the later one");
    table.reserve(place, &[absent("q")]);
    assert!(table.earlier(&puts(&["e"]), None).is_none(), "only the newest plan is reserved for");
    assert!(table.earlier(&puts(&["q"]), None).is_some());
}

#[test]
fn the_queue_is_bounded() {
    let table = Table::default();
    let places: Vec<u64> =
        (0..RESERVATIONS_MAX).map(|_| table.join(&[absent("a")], false).unwrap()).collect();
    assert_eq!(table.join(&[absent("b")], false), None);
    table.leave(places[0]);
    assert!(table.join(&[absent("b")], false).is_some());
}

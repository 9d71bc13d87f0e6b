use store::{Assumptions, CounterKey, Guard, Key, Plan, Space, Value, Write};

use super::{Delivery, EncodedBatch, bounds, opcode};
use crate::member;

#[test]
fn the_script_has_the_same_opcodes() {
    let opcodes = [
        ("FIELDS_EQUAL", opcode::FIELDS_EQUAL),
        ("FIELDS_ABSENT", opcode::FIELDS_ABSENT),
        ("FIELDS_PRESENT", opcode::FIELDS_PRESENT),
        ("MEMBERS_PRESENT", opcode::MEMBERS_PRESENT),
        ("RANGES_EMPTY", opcode::RANGES_EMPTY),
        ("RANGES_FILLED", opcode::RANGES_FILLED),
        ("SAVE", opcode::SAVE),
        ("COMPUTE_COUNTERS", opcode::COMPUTE_COUNTERS),
        ("WRITE_COUNTERS", opcode::WRITE_COUNTERS),
        ("INDEX", opcode::INDEX),
        ("RUN", opcode::RUN),
        ("REPLACE_MEMBER", opcode::REPLACE_MEMBER),
        ("PUT_FIELDS", opcode::PUT_FIELDS),
        ("REMOVE", opcode::REMOVE),
        ("STRINGS_EQUAL", opcode::STRINGS_EQUAL),
        ("COUNTERS_AT_MOST", opcode::COUNTERS_AT_MOST),
        ("ADD", opcode::ADD),
        ("MAX", opcode::MAX),
        ("ADD_THEN_MAX", opcode::ADD_THEN_MAX),
    ];
    let mut defined = Vec::new();
    for line in
        include_str!("../commit_opcodes.lua").lines().filter(|line| line.starts_with("local "))
    {
        let Some((names, numbers)) = line.trim_start_matches("local ").split_once(" = ") else {
            continue;
        };
        let numbers = numbers.split(", ").map(|number| number.parse::<u8>().ok());
        defined.extend(names.split(", ").zip(numbers));
    }
    for (name, number) in opcodes {
        assert!(defined.contains(&(name, Some(number))), "{name}");
    }
}

#[test]
fn bounds_contain_all_members_of_a_suffix() {
    for suffix in [&b""[..], b"name", b"zeros\0\0\0", b"\xff\xff", &[0; 400]] {
        let written = member::written(suffix);
        let [first, behind] = bounds(&written).map(|bound| bound[1..].to_vec());
        assert_eq!(first, written);
        for value in [&b""[..], b"\0", b"\xff\xff\xff"] {
            let member = [&written[..], value].concat();
            assert!(first <= member && member < behind, "{suffix:?} {value:?}");
        }
        assert!(!behind.starts_with(&written));
    }
}

fn put_of_a_small_object(number: u64) -> Plan {
    let dentry = Key::new(Space(b'd'), 7, format!("name-{number}").as_bytes());
    let slot = Key::new(Space(b'K'), 7, &number.to_be_bytes());
    let counter = |suffix: &[u8]| CounterKey(Key::new(Space(b'n'), 7, suffix));
    Plan {
        guards: vec![
            Guard::Equals(slot.clone(), Value::from_static(b"step")),
            Guard::Present(Key::new(Space(b's'), 0, b"session")),
            Guard::Absent(dentry.clone()),
        ],
        writes: vec![
            Write::Put(Key::new(Space(b'~'), number, b""), vec![7; 4_300].into()),
            Write::Put(dentry, Value::from_static(b"inode")),
            Write::Put(slot, Value::from_static(b"next")),
            Write::Add(counter(b"e"), 1),
            Write::Max(counter(b"m"), 1),
        ],
    }
}

/// The cost of a small object for the server: each operation is a command, and each argument a
/// string that Lua creates.
#[test]
fn another_object_adds_a_few_arguments_and_no_operation() {
    let cost = |objects: u64| {
        let plans: Vec<Plan> = (0..objects).map(put_of_a_small_object).collect();
        let decision = Assumptions::new(&plans).decide().expect("a decision");
        let encoded = EncodedBatch::encode(&decision, b"entry", "{volume}:", Delivery::Alone);
        (encoded.operations.len() / 5, encoded.ends.len(), encoded.out_of_band.len())
    };
    let ((operations, arguments, out_of_band), more) = (cost(8), cost(9));
    assert_eq!((more.0 - operations, more.1 - arguments, more.2 - out_of_band), (0, 11, 1));
    assert_eq!(operations, 12);
}

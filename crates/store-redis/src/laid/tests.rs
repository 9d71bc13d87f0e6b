use store::{Guard, Key, Plan, Space, TallyKey, Value, Write};

use super::{Laid, bounds, kind};
use crate::code;
use crate::joined::Joined;
use crate::member;

#[test]
fn the_script_has_the_same_steps() {
    let kinds = [
        ("RECORDS", kind::RECORDS),
        ("ABSENT", kind::ABSENT),
        ("PRESENT", kind::PRESENT),
        ("MEMBERS", kind::MEMBERS),
        ("NONE", kind::NONE),
        ("SOME", kind::SOME),
        ("UNSAVED", kind::UNSAVED),
        ("TALLIES", kind::TALLIES),
        ("COUNTED", kind::COUNTED),
        ("BEGUN", kind::BEGUN),
        ("COMMAND", kind::COMMAND),
        ("OVER", kind::OVER),
        ("FIELDS", kind::FIELDS),
        ("GONE", kind::GONE),
        ("RESTS", kind::RESTS),
        ("ADD", code::ADD),
        ("MAX", code::MAX),
    ];
    let mut defined = Vec::new();
    for line in include_str!("../joined.lua").lines().filter(|line| line.starts_with("local ")) {
        let Some((names, numbers)) = line.trim_start_matches("local ").split_once(" = ") else {
            continue;
        };
        let numbers = numbers.split(", ").map(|number| number.parse::<u8>().ok());
        defined.extend(names.split(", ").zip(numbers));
    }
    for (name, number) in kinds {
        assert!(defined.contains(&(name, Some(number))), "{name}");
    }
}

#[test]
fn bounds_hold_a_suffix_and_what_follows_it() {
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
    let lane = Key::new(Space(b'K'), 7, &number.to_be_bytes());
    let tally = |suffix: &[u8]| TallyKey(Key::new(Space(b'n'), 7, suffix));
    Plan {
        guards: vec![
            Guard::Equals(lane.clone(), Value::from_static(b"step")),
            Guard::Present(Key::new(Space(b's'), 0, b"session")),
            Guard::Absent(dentry.clone()),
        ],
        writes: vec![
            Write::Put(Key::new(Space(b'~'), number, b""), vec![7; 4_300].into()),
            Write::Put(dentry, Value::from_static(b"inode")),
            Write::Put(lane, Value::from_static(b"next")),
            Write::Add(tally(b"e"), 1),
            Write::Max(tally(b"m"), 1),
        ],
    }
}

/// What the server does for a small object: each step is a command, and each argument a string that Lua
/// makes.
#[test]
fn another_object_is_few_steps_and_arguments_more() {
    let cost = |objects: u64| {
        let plans: Vec<Plan> = (0..objects).map(put_of_a_small_object).collect();
        let joined = Joined::of(&plans).expect("nothing is in the way");
        let laid = Laid::out(&joined, b"told", "{volume}:");
        (laid.steps.len() / 5, laid.ends.len(), laid.rests.len())
    };
    let ((steps, arguments, rests), more) = (cost(8), cost(9));
    assert_eq!((more.0 - steps, more.1 - arguments, more.2 - rests), (0, 11, 1));
    assert_eq!(steps, 12);
}

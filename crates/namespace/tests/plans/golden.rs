//! The plans of the main operations as text. Set `GOLDEN_BLESS=1` to write the golden file.

use std::fmt::Write as _;
use std::path::PathBuf;

use namespace::{Hints, NoHints};
use record::key::{CounterKind, space};
use store::{CounterKey, Guard, Key, Write};

use crate::acts::{Act, Prepared, if_match, put, put_if, remove, remove_if};
use crate::memory::Stale;
use crate::world::World;

/// A key as text.
fn words(key: &Key) -> String {
    let number = key.partition();
    let suffix = key.suffix();
    let last = || u64::from_be_bytes(suffix[suffix.len() - 8..].try_into().unwrap());
    match key.space() {
        space::INODE => format!("inode/{number}"),
        space::BUCKET => format!("bucket/{number}"),
        space::BUCKET_CONFIG => format!("bucket-config/{number}/{}", suffix.escape_ascii()),
        space::DENTRY => format!("dentry/{number}/{}", suffix.escape_ascii()),
        space::ORPHAN => format!("orphan/{}", last()),
        space::UPLOAD => {
            format!("upload/{number}/{}", suffix[..suffix.len() - 17].escape_ascii())
        }
        space::PART => {
            let [a, b, sent @ ..]: [u8; 6] = suffix.try_into().unwrap();
            let (part, sent) = (u16::from_be_bytes([a, b]), u32::from_be_bytes(sent));
            format!("part/{number}/{part}/{sent}")
        }
        _ => format!("{key:?}"),
    }
}

fn counter(CounterKey(key): &CounterKey) -> String {
    let names = [
        (CounterKind::Entries, "entries"),
        (CounterKind::Modified, "modified"),
        (CounterKind::Objects, "objects"),
        (CounterKind::Bytes, "bytes"),
        (CounterKind::Directories, "directories"),
    ];
    let name = names.iter().find(|(count, _)| [*count as u8] == key.suffix()).unwrap().1;
    format!("counter/{}/{name}", key.partition())
}

fn guard(guard: &Guard) -> String {
    match guard {
        Guard::Equals(key, _) => format!("equals   {}", words(key)),
        Guard::Absent(key) => format!("absent   {}", words(key)),
        Guard::Present(key) => format!("present  {}", words(key)),
        Guard::AtMost(counter, most) => format!("at most  {} {most}", words(&counter.0)),
        Guard::Empty(start, end) => format!("empty    {} .. {}", words(start), words(end)),
    }
}

fn write(write: &Write) -> String {
    match write {
        Write::Put(key, _) => format!("put      {}", words(key)),
        Write::Delete(key) => format!("delete   {}", words(key)),
        Write::Add(key, by) => format!("add      {} {by:+}", counter(key)),
        Write::Max(key, least) => format!("max      {} {least}", counter(key)),
        Write::Set(key, value) => format!("set      {} {value}", counter(key)),
        Write::Clear(key) => format!("clear    {}", counter(key)),
    }
}

/// The plan that an operation commits, and its cost.
fn show(world: &World, name: &str, act: &Act, hints: &dyn Hints) -> String {
    let prepared = Prepared::new(act, &world.state(), 2_000);
    let (mut text, mut cost) = (String::new(), (0, 0));
    prepared.begin(hints, |actor| {
        while actor.answer().is_none() {
            match actor.plan() {
                Some(_) => cost.1 += 1,
                None => cost.0 += 1,
            }
            let plan = actor.plan().cloned();
            actor.step(&world.store);
            if actor.answer().is_some()
                && let Some(plan) = plan
            {
                writeln!(text, "{name}    reads {} commits {}", cost.0, cost.1).unwrap();
                plan.guards.iter().for_each(|g| writeln!(text, "  guard  {}", guard(g)).unwrap());
                plan.writes.iter().for_each(|w| writeln!(text, "  write  {}", write(w)).unwrap());
            }
        }
    });
    assert!(!text.is_empty(), "{name} commits");
    text + "\n"
}

#[test]
fn plans_equal_their_golden_file() {
    let upload = b"up/x";
    let cases: [(&str, &[Act], Act); 15] = [
        ("publish-new", &[], put(b"x", 3)),
        ("publish-with-parents", &[], put(b"a/b/x", 3)),
        ("publish-over-file", &[put(b"a/x", 1)], put(b"a/x", 3)),
        ("publish-if-match", &[put(b"a/x", 1)], put_if(b"a/x", 3, if_match(1))),
        ("remove-beside-another", &[put(b"a/x", 1), put(b"a/y", 2)], remove(b"a/", &[b"x"])),
        ("remove-last", &[put(b"a/b/x", 1)], remove(b"a/b/", &[b"x"])),
        ("remove-if-match", &[put(b"x", 1), put(b"y", 2)], remove_if(b"", &[b"x", b"y", b"z"], 1)),
        ("set-tags", &[put(b"a/x", 1)], Act::Tags(b"a/x")),
        ("delete-bucket", &[], Act::DropBucket),
        ("set-bucket-config", &[], Act::Configure(true)),
        ("delete-configured-bucket", &[Act::Configure(true)], Act::DropBucket),
        ("create-upload", &[], Act::Begin(upload)),
        ("put-part", &[Act::Begin(upload)], Act::Part(upload)),
        ("complete", &[Act::Begin(upload)], Act::Complete(upload)),
        ("abort-upload", &[Act::Begin(upload)], Act::Abort(upload)),
    ];
    let mut text = String::new();
    for (name, before, act) in cases {
        let world = World::new();
        for (n, act) in (0..).zip(before) {
            let prepared = Prepared::new(act, &world.state(), 1_100 + 100 * n);
            prepared.run(&world.store, &NoHints);
        }
        let states = [world.state().records];
        let hints = Stale { states: &states, choice: 0, absences: false, sure: true, fickle: None };
        text.push_str(&show(&world, name, &act, &hints));
    }
    text.push_str(&show(&World::empty(), "create-bucket", &Act::MakeBucket, &NoHints));
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/plans.txt");
    if std::env::var_os("GOLDEN_BLESS").is_some() {
        std::fs::write(&path, &text).expect("the golden folder is writable");
    }
    let expected = std::fs::read_to_string(&path).expect("a golden file");
    assert_eq!(text, expected, "the plans differ from their golden file");
}

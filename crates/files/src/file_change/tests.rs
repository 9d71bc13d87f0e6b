use proptest::prelude::*;

use super::*;

/// The values of one change of each kind.
#[derive(Clone, Debug)]
struct Values {
    number: u64,
    bytes: Vec<u8>,
    appends: bool,
    drop_rights: bool,
    now: Timestamp,
    attributes: AttributeChange,
}

fn time() -> impl Strategy<Value = Timestamp> {
    prop_oneof![any::<i64>(), Just(i64::MIN), Just(-1), Just(0)].prop_map(Timestamp)
}

fn number() -> impl Strategy<Value = Option<u32>> {
    prop::option::of(prop_oneof![any::<u32>(), Just(0), Just(u32::MAX)])
}

fn set_time() -> impl Strategy<Value = Option<SetTime>> {
    prop::option::of(prop_oneof![Just(SetTime::Now), time().prop_map(SetTime::At)])
}

fn attributes() -> impl Strategy<Value = AttributeChange> {
    let all = (number(), number(), number(), set_time(), set_time(), any::<bool>());
    all.prop_map(|(mode, uid, gid, accessed, modified, drop_rights)| AttributeChange {
        mode,
        uid,
        gid,
        accessed,
        modified,
        drop_rights,
    })
}

fn values() -> impl Strategy<Value = Values> {
    let bytes = prop::collection::vec(any::<u8>(), 0..20);
    (any::<u64>(), bytes, any::<bool>(), any::<bool>(), time(), attributes()).prop_map(
        |(number, bytes, appends, drop_rights, now, attributes)| Values {
            number,
            bytes,
            appends,
            drop_rights,
            now,
            attributes,
        },
    )
}

/// Returns a change of the kind that follows that of `last`, and one of the first kind for `None`.
/// Each kind names the next one, so a new kind does not compile without a place here.
fn change_after<'v>(last: Option<&FileChange<'_>>, values: &'v Values) -> Option<FileChange<'v>> {
    let &Values { number, ref bytes, appends, drop_rights, now, attributes } = values;
    let (position, size, directory) = (number, number, Ino(number));
    Some(match last {
        None => FileChange::Write { position, bytes, appends, drop_rights, now },
        Some(FileChange::Write { .. }) => FileChange::Resize { size, drop_rights, now },
        Some(FileChange::Resize { .. }) => FileChange::Extend { size, now },
        Some(FileChange::Extend { .. }) => FileChange::Set { attributes, now },
        Some(FileChange::Set { .. }) => FileChange::Unlinked,
        Some(FileChange::Unlinked) => FileChange::Name { directory, name: bytes },
        Some(FileChange::Name { .. }) => FileChange::Record { record: bytes },
        Some(FileChange::Record { .. }) => FileChange::Created { record: bytes },
        Some(FileChange::Created { .. }) => FileChange::NameInUse { directory, name: bytes },
        Some(FileChange::NameInUse { .. }) => FileChange::Executed,
        Some(FileChange::Executed) => return None,
    })
}

/// Iterates over one change of each kind.
fn every_kind(values: &Values) -> impl Iterator<Item = FileChange<'_>> {
    std::iter::successors(change_after(None, values), |last| change_after(Some(last), values))
}

proptest! {
    #[test]
    fn every_change_survives_encoding_and_decoding(values in values()) {
        for change in every_kind(&values) {
            let (kind, words, bytes) = change.encode();
            let logged = LoggedChange { kind, request: 2, words, bytes: bytes.to_vec() };
            prop_assert_eq!(FileChange::decode(&logged), Some(change));
        }
    }

    #[test]
    fn entry_of_an_unknown_kind_is_no_change(
        kind in prop_oneof![Just(0), (1_u64 << 32)..],
        words in any::<[u64; CHANGE_WORDS]>(),
        bytes in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        let logged = LoggedChange { kind, request: 2, words, bytes };
        prop_assert_eq!(FileChange::decode(&logged), None);
    }
}

#[test]
fn creation_is_open_until_a_later_entry_proves_that_the_file_existed() {
    let (now, attributes) = (Timestamp(7), AttributeChange::default());
    let name = FileChange::Name { directory: Ino(1), name: b"f" };
    let created = FileChange::Created { record: b"created" };
    let record = FileChange::Record { record: b"copy" };
    let set = FileChange::Set { attributes, now };
    let write =
        FileChange::Write { position: 0, bytes: b"x", appends: false, drop_rights: false, now };
    let found = |changes: &[FileChange<'static>]| created_record(changes.iter().copied());
    for open in [&[name, created][..], &[name, created, write, set, record]] {
        assert_eq!(found(open), Some(&b"created"[..]), "{open:?}");
    }
    let proved = [
        &[][..],
        &[name, write],
        &[name, created, name, write],
        &[name, created, write, FileChange::Unlinked],
    ];
    for proved in proved {
        assert_eq!(found(proved), None, "{proved:?}");
    }
}

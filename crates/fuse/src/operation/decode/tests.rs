use std::ffi::OsStr;

use proptest::prelude::*;
use zerocopy::IntoBytes;

use super::decode;
use crate::abi::{self, bits, fattr, opcode};
use crate::node::{FileHandle, FileTime, NodeId};
use crate::operation::{
    AttributeChanges, FileLock, FileOperation, LockKind, LockOwner, MalformedRequest, TimeChange,
};

/// Returns the bytes of a struct and the bytes that follow it.
fn body(value: &(impl IntoBytes + zerocopy::Immutable), rest: &[u8]) -> Vec<u8> {
    [value.as_bytes(), rest].concat()
}

fn decoded(opcode: u32, bytes: &[u8]) -> FileOperation<'_> {
    decode(opcode, NodeId(7), bytes).unwrap()
}

#[track_caller]
fn refused(opcode: u32, bytes: &[u8], reason: &'static str) {
    assert_eq!(decode(opcode, NodeId(7), bytes).unwrap_err(), MalformedRequest { opcode, reason });
}

#[test]
fn a_name_ends_with_its_nul() {
    let FileOperation::Lookup { name } = decoded(opcode::LOOKUP, b"a name\0") else { panic!() };
    assert_eq!(name, OsStr::new("a name"));
    refused(opcode::LOOKUP, b"a name", "a string has no terminating NUL");
}

#[test]
fn a_name_is_one_component() {
    refused(opcode::UNLINK, b"\0", "the name is empty");
    refused(opcode::MKDIR, &body(&abi::MkdirIn::default(), b"a/b\0"), "the name contains a slash");
    let FileOperation::Symlink { name, target } = decoded(opcode::SYMLINK, b"l\0/a/b\0") else {
        panic!()
    };
    assert_eq!((name, target), (OsStr::new("l"), OsStr::new("/a/b")));
}

#[test]
fn a_rename_has_two_names_and_perhaps_flags() {
    let plain = body(&abi::RenameIn { newdir: 9 }, b"old\0new\0");
    let flagged = body(&abi::Rename2In { newdir: 9, flags: 2, padding: 0 }, b"old\0new\0");
    for (opcode, bytes, expected) in [(opcode::RENAME, plain, 0), (opcode::RENAME2, flagged, 2)] {
        let FileOperation::Rename { name, new_parent, new_name, flags } = decoded(opcode, &bytes)
        else {
            panic!()
        };
        assert_eq!((name, new_name), (OsStr::new("old"), OsStr::new("new")));
        assert_eq!((new_parent, flags), (NodeId(9), expected));
    }
}

#[test]
fn a_write_has_the_data_that_it_announces() {
    let header = abi::WriteIn {
        fh: 3,
        offset: 1 << 40,
        size: 4,
        write_flags: bits::WRITE_KILL_SUIDGID | bits::WRITE_LOCKOWNER,
        lock_owner: 11,
        ..abi::WriteIn::default()
    };
    let bytes = body(&header, b"datamore");
    let FileOperation::Write { data, offset, lock_owner, kill_suidgid, from_page_cache, .. } =
        decoded(opcode::WRITE, &bytes)
    else {
        panic!()
    };
    assert_eq!((data, offset), (&b"data"[..], 1 << 40));
    assert_eq!(lock_owner, Some(LockOwner(11)));
    assert!(kill_suidgid && !from_page_cache);
    refused(opcode::WRITE, &body(&header, b"dat"), "data is missing");
}

#[test]
fn only_what_is_valid_in_a_setattr_changes() {
    let valid = fattr::SIZE | fattr::ATIME | fattr::ATIME_NOW | fattr::MTIME | fattr::FH;
    let bytes = body(
        &abi::SetattrIn {
            valid,
            fh: 5,
            size: 100,
            mtime: (-3_i64).cast_unsigned(),
            mtimensec: 9,
            mode: 0o777,
            uid: 1,
            ..abi::SetattrIn::default()
        },
        b"",
    );
    let FileOperation::SetAttr(changes) = decoded(opcode::SETATTR, &bytes) else { panic!() };
    let expected = AttributeChanges {
        size_bytes: Some(100),
        atime: Some(TimeChange::Now),
        mtime: Some(TimeChange::At(FileTime { seconds: -3, nanoseconds: 9 })),
        handle: Some(FileHandle(5)),
        ..AttributeChanges::default()
    };
    assert_eq!(changes, expected);
}

#[test]
fn a_lock_has_a_kind_and_a_range() {
    let lock = |kind, start, end| {
        let lk = abi::RawLock { start, end, kind, pid: 12 };
        body(&abi::LkIn { fh: 1, owner: 2, lk, lk_flags: bits::LK_FLOCK, padding: 0 }, b"")
    };
    let bytes = lock(1, 10, 19);
    let FileOperation::SetLkW(question) = decoded(opcode::SETLKW, &bytes) else { panic!() };
    let expected = FileLock { start: 10, end: 19, kind: LockKind::Exclusive, pid: 12 };
    assert_eq!((question.lock, question.owner), (expected, LockOwner(2)));
    assert!(question.flock);
    refused(opcode::SETLK, &lock(3, 0, 1), "the lock type is unknown");
    refused(opcode::GETLK, &lock(0, 2, 1), "the lock ends before it starts");
}

#[test]
fn forget_and_batch_forget_are_decoded() {
    let one = body(&abi::ForgetIn { nlookup: 4 }, b"");
    let FileOperation::Forget { nodes } = decoded(opcode::FORGET, &one) else { panic!() };
    assert_eq!(nodes.collect::<Vec<_>>(), [(NodeId(7), 4)]);
    let each = [(1, 2), (3, 4)].map(|(nodeid, nlookup)| abi::ForgetOne { nodeid, nlookup });
    let many = body(&abi::BatchForgetIn { count: 2, dummy: 0 }, each.as_bytes());
    let FileOperation::Forget { nodes } = decoded(opcode::BATCH_FORGET, &many) else { panic!() };
    assert_eq!(nodes.collect::<Vec<_>>(), [(NodeId(1), 2), (NodeId(3), 4)]);
    refused(opcode::BATCH_FORGET, &many[..many.len() - 1], "data is missing");
    let huge = body(&abi::BatchForgetIn { count: u32::MAX, dummy: 0 }, b"");
    refused(opcode::BATCH_FORGET, &huge, "the list of nodes is too long");
}

#[test]
fn a_value_may_be_empty_but_its_name_may_not() {
    let header = abi::SetxattrIn { size: 0, setxattr_flags: 1, ..abi::SetxattrIn::default() };
    let bytes = body(&header, b"user.a\0");
    let FileOperation::SetXattr { name, value, acl_kill_sgid, .. } =
        decoded(opcode::SETXATTR, &bytes)
    else {
        panic!()
    };
    assert_eq!((name, value.len(), acl_kill_sgid), (OsStr::new("user.a"), 0, true));
    refused(opcode::SETXATTR, &body(&header, b"\0"), "the attribute name is empty");
}

/// The format without the extension, for any lengths of name and value.
#[test]
fn short_setxattr_is_decoded() {
    for name in ["u", "user.a", "user.abc", "user.abcd", "user.abcdefghijklmnop"] {
        for value in ["", "b", "a longer value"] {
            let size = u32::try_from(value.len()).unwrap();
            let short =
                [size.as_bytes(), 2_u32.as_bytes(), name.as_bytes(), b"\0", value.as_bytes()];
            let bytes = short.concat();
            let FileOperation::SetXattr { name: found, value: said, flags, acl_kill_sgid } =
                decoded(opcode::SETXATTR, &bytes)
            else {
                panic!()
            };
            assert_eq!((found, said), (OsStr::new(name), value.as_bytes()));
            assert_eq!((flags, acl_kill_sgid), (2, false));
        }
    }
}

#[test]
fn an_operation_of_a_later_kernel_is_unknown_and_not_malformed() {
    for opcode in [37, 40, 48, 54, 4096, u32::MAX] {
        let decoded = decoded(opcode, b"");
        assert!(matches!(decoded, FileOperation::Unknown { opcode: it } if it == opcode));
    }
}

/// Operations with an empty body.
const BODILESS: [u32; 5] =
    [opcode::READLINK, opcode::STATFS, opcode::INIT, opcode::DESTROY, opcode::SYNCFS];

#[test]
fn an_operation_without_its_body_is_refused() {
    let all = (1..=53).filter(|opcode| !BODILESS.contains(opcode));
    let refused = all.filter(|opcode| decode(*opcode, NodeId(7), b"").is_err()).count();
    // Of the codes up to 53, these are unused or not decoded: 7, 19, 37, 40, 41, 48, 49.
    assert_eq!(refused, 53 - BODILESS.len() - 7);
}

proptest! {
    #[test]
    fn random_bytes_never_panic_the_decoder(
        opcode in 0_u32..60,
        bytes in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        if let Ok(FileOperation::Forget { nodes }) = decode(opcode, NodeId(1), &bytes) {
            prop_assert!(nodes.count() <= bytes.len());
        }
    }

    #[test]
    fn truncated_requests_are_refused_or_decoded(
        name in "[a-z]{1,20}",
        data in prop::collection::vec(any::<u8>(), 0..100),
        cut in 1_usize..140,
    ) {
        let size = u32::try_from(data.len()).unwrap();
        let write = body(&abi::WriteIn { size, ..abi::WriteIn::default() }, &data);
        let create = body(&abi::CreateIn::default(), format!("{name}\0").as_bytes());
        for (opcode, bytes) in [(opcode::WRITE, write), (opcode::CREATE, create)] {
            let short = &bytes[..bytes.len().saturating_sub(cut)];
            prop_assert!(decode(opcode, NodeId(1), &bytes).is_ok());
            prop_assert!(decode(opcode, NodeId(1), short).is_err());
        }
    }
}

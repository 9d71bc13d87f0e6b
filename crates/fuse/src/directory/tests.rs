use std::ffi::OsStr;

use super::{DirectoryBuffer, DirectoryName};

fn name(name: &str) -> DirectoryName<'_> {
    DirectoryName { inode: 7, cookie: 3, kind: 8, name: OsStr::new(name) }
}

#[test]
fn directory_entry_is_padded_to_eight_bytes() {
    let mut buffer = DirectoryBuffer::new(4096);
    assert!(buffer.push(name("abc")));
    let mut expected = Vec::new();
    expected.extend_from_slice(&7_u64.to_ne_bytes());
    expected.extend_from_slice(&3_u64.to_ne_bytes());
    expected.extend_from_slice(&3_u32.to_ne_bytes());
    expected.extend_from_slice(&8_u32.to_ne_bytes());
    expected.extend_from_slice(b"abc\0\0\0\0\0");
    assert_eq!(buffer.bytes(), expected);
}

#[test]
fn directory_entry_that_does_not_fit_is_left_out() {
    let mut buffer = DirectoryBuffer::new(64);
    assert!(buffer.push(name("12345678")));
    assert!(buffer.push(name("12345678")));
    assert!(!buffer.push(name("1")));
    assert_eq!(buffer.bytes().len(), 64);
}

#[test]
fn readdirplus_entry_begins_with_the_node() {
    let mut buffer = DirectoryBuffer::new(4096);
    assert!(buffer.push_plus(None, name("..")));
    assert_eq!(buffer.bytes().len(), 128 + 24 + 8);
    assert!(buffer.bytes()[..128].iter().all(|byte| *byte == 0), "no lookup is counted");
    assert!(!DirectoryBuffer::new(128).push_plus(None, name("..")));
}

use zerocopy::IntoBytes;

use super::{Request, header_of};
use crate::abi::{InHeader, WriteIn, opcode};
use crate::buffer::BufferPool;
use crate::operation::FileOperation;

/// Returns a message that announces `extra` more bytes than it has, or fewer.
fn message(opcode: u32, total_extlen: u16, body: &[u8]) -> Vec<u8> {
    let len = u32::try_from(size_of::<InHeader>() + body.len()).unwrap();
    let unique = 8 | (1 << 63);
    let header = InHeader { len, opcode, unique, nodeid: 5, total_extlen, ..Default::default() };
    [header.as_bytes(), body].concat()
}

fn parse(message: &[u8]) -> Option<Request> {
    let buffer = BufferPool::new(8192, 1).small_copy(message);
    Request::parse(header_of(message)?, buffer).ok()
}

#[test]
fn message_with_a_wrong_length_has_no_header() {
    let whole = message(opcode::STATFS, 0, b"");
    assert!(header_of(&whole).is_some());
    assert!(header_of(&whole[..39]).is_none());
    assert!(header_of(&[&whole[..], b"x"].concat()).is_none());
    assert!(header_of(b"").is_none());
}

#[test]
fn extensions_are_not_part_of_the_body() {
    let request = parse(&message(opcode::LOOKUP, 1, b"ab\0\0\0\0\0\0EXTENDED")).unwrap();
    let FileOperation::Lookup { name } = request.operation() else { panic!() };
    assert_eq!(name, "ab");
    assert!(parse(&message(opcode::LOOKUP, 2, b"EXTENDED")).is_none());
    assert!(parse(&message(opcode::STATFS, u16::MAX, b"")).is_none());
}

#[test]
fn resent_request_is_marked_and_keeps_its_number() {
    let request = parse(&message(opcode::STATFS, 0, b"")).unwrap();
    assert!(request.is_resent());
    assert_eq!((request.unique(), request.original_unique()), (8 | (1 << 63), 8));
}

#[test]
fn write_data_is_taken_without_a_copy() {
    let header = WriteIn { size: 3, ..WriteIn::default() };
    let request = parse(&message(opcode::WRITE, 0, &[header.as_bytes(), b"abc"].concat())).unwrap();
    let FileOperation::Write { data, .. } = request.operation() else { panic!() };
    let address = data.as_ptr();
    let data = request.into_write_data().unwrap();
    assert_eq!(&*data, b"abc");
    assert_eq!(data.as_ptr(), address);
    assert!(parse(&message(opcode::STATFS, 0, b"")).unwrap().into_write_data().is_none());
}

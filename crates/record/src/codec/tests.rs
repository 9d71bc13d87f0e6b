//! How records grow: a planted one, as a release wrote it first, and as a later one does.

#![expect(unreachable_pub, reason = "what the macro makes is public, as records are")]

use store::{Key, Space};

use super::{DecodeError, Writer};

#[derive(Debug, PartialEq, Eq)]
struct Before {
    name: String,
    sizes: Vec<u8>,
}

record!(
    Before,
    1,
    |this, to| {
        to.bytes(this.name.as_bytes()).part(|to| {
            to.fixed(&this.sizes);
        });
    },
    |from| { Before { name: from.string("name")?, sizes: sizes(from.part("sizes")?)?.0 } }
);

/// The same record a release later: it has a limit, and within its sizes a unit.
#[derive(Debug, PartialEq, Eq)]
struct After {
    name: String,
    unit: u8,
    sizes: Vec<u8>,
    limit: Option<u64>,
}

record!(
    After,
    2,
    |this, to| {
        to.bytes(this.name.as_bytes()).part(|to| {
            to.u8(this.unit).fixed(&this.sizes);
        });
        to.varint(this.limit.map_or(0, |limit| limit + 1));
    },
    |from| {
        let name = from.string("name")?;
        let (sizes, unit) = sizes(from.part("sizes")?)?;
        let limit = if from.since(2) { from.varint("limit")?.checked_sub(1) } else { None };
        After { name, unit, sizes, limit }
    }
);

/// The unit is 1 where the format has none.
fn sizes(mut part: super::Reader<'_>) -> Result<(Vec<u8>, u8), DecodeError> {
    let unit = if part.since(2) { part.u8("unit")? } else { 1 };
    let mut sizes = Vec::new();
    while !part.is_empty() {
        sizes.push(part.u8("size")?);
    }
    Ok((sizes, unit))
}

fn key() -> Key {
    Key::new(Space(b'?'), 7, b"x")
}

#[test]
fn record_of_format_1_decodes_as_format_2() {
    let old = Before { name: "a".to_owned(), sizes: vec![5, 6] };
    let written = old.encode(&key());
    assert_eq!((written[0], Before::decode(&key(), &written)), (1, Ok(old)));
    let read = After::decode(&key(), &written).expect("formats before are read");
    assert_eq!(read, After { name: "a".to_owned(), unit: 1, sizes: vec![5, 6], limit: None });
    // Written again it has the newest format.
    let again = read.encode(&key());
    assert_eq!((again[0], After::decode(&key(), &again)), (2, Ok(read)));
}

#[test]
fn fields_of_a_later_format_round_trip() {
    let new = After { name: "a".to_owned(), unit: 9, sizes: vec![5, 6], limit: Some(0) };
    assert_eq!(After::decode(&key(), &new.encode(&key())), Ok(new));
}

#[test]
fn unknown_formats_and_format_0_are_refused() {
    let new = After { name: "a".to_owned(), unit: 9, sizes: vec![], limit: Some(3) };
    assert_eq!(Before::decode(&key(), &new.encode(&key())), Err(DecodeError::Format(2)));
    for format in [0, 3, u8::MAX] {
        let mut to = Writer::new(format);
        to.bytes(b"a").part(|_| {}).varint(0);
        assert_eq!(After::decode(&key(), &to.finish(&key())), Err(DecodeError::Format(format)));
    }
    let refused = DecodeError::Format(3).to_string();
    assert_eq!(refused, "its format, kind or section is 3, which this release does not know");
}

/// Fields of the second format are asked of a record that says it has them.
#[test]
fn record_without_a_field_of_its_format_is_refused() {
    let mut to = Writer::new(2);
    to.bytes(b"a").part(|to| {
        to.u8(1);
    });
    let found = After::decode(&key(), &to.finish(&key()));
    assert_eq!(found, Err(DecodeError::Field("limit")));
}

//! Where a block lies: the names under which folders and buckets keep blocks.
//!
//! `<session>/<group>/<id>`: a session's nonce, the block's counter divided by 4,096 as nine
//! hexadecimal digits, the whole id. So one session is one listing, a folder never holds more than
//! 4,096 blocks, and names sort as ids do.

use record::{BlockId, Nonce};

/// Counters that share a group.
const GROUP_BLOCKS: u64 = 4_096;

/// Hexadecimal digits of a group: the 48 bits of a counter without the 12 within the group.
const GROUP_DIGITS: usize = 9;

/// The name of a block's group within its session.
pub(crate) fn group(id: BlockId) -> String {
    format!("{:0GROUP_DIGITS$x}", id.counter() / GROUP_BLOCKS)
}

/// A block's whole name: session, group and id, separated by slashes.
pub(crate) fn name(id: BlockId) -> String {
    format!("{}/{}/{id}", id.session(), group(id))
}

/// Whether a text is a group's name.
pub(crate) fn is_group(text: &str) -> bool {
    text.len() == GROUP_DIGITS && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// The block that lies under a name within a session, if a block may lie there.
pub(crate) fn parse(session: Nonce, group_name: &str, id: &str) -> Option<BlockId> {
    let id: BlockId = id.parse().ok()?;
    (id.session() == session && group(id) == group_name).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_session_group_and_id() {
        let session = Nonce([0xab; Nonce::BYTES]);
        let id = BlockId::new(session, 0x1234_5678_9abc);
        let text = "abababababababababab/123456789/abababababababababab123456789abc";
        assert_eq!(name(id), text);
        assert_eq!(parse(session, "123456789", &id.to_string()), Some(id));
        assert_eq!(parse(session, "123456788", &id.to_string()), None, "another group");
        assert_eq!(parse(Nonce([0; Nonce::BYTES]), "123456789", &id.to_string()), None);
        assert!(is_group("123456789") && !is_group("12345678A") && !is_group("0123456789"));
    }

    #[test]
    fn names_sort_as_ids_do() {
        let session = Nonce([7; Nonce::BYTES]);
        let counters = [0, 1, 4_095, 4_096, 1 << 30, BlockId::COUNTER_MAX];
        let names: Vec<_> = counters.map(|counter| name(BlockId::new(session, counter))).into();
        assert!(names.is_sorted());
    }
}

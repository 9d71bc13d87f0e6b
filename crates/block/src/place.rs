//! The names of blocks in folders and buckets.
//!
//! `<session>/<group>/<id>`: the session's nonce; the block's counter divided by 4,096 as nine
//! hexadecimal digits; the whole id. So one session is one listing, a folder holds at most 4,096
//! blocks, and names sort as ids do.
//!
//! For example, block 5,000 of a session is in group `000000001`.

use record::{BlockId, Nonce};

/// The number of counters that share a group.
const GROUP_BLOCKS: u64 = 4_096;

/// The hexadecimal digits of a group: the 48 bits of a counter without the 12 bits within the
/// group.
const GROUP_DIGITS: usize = 9;

/// Returns the name of the group, a folder of up to 4,096 blocks, to which a block belongs within
/// its session.
pub(crate) fn group(id: BlockId) -> String {
    format!("{:0GROUP_DIGITS$x}", id.counter() / GROUP_BLOCKS)
}

/// Returns the full name of a block: session, group and id, separated by slashes.
pub(crate) fn name(id: BlockId) -> String {
    format!("{}/{}/{id}", id.session(), group(id))
}

/// Returns true if the text is the name of a group, a folder of blocks of a session.
pub(crate) fn is_group(text: &str) -> bool {
    text.len() == GROUP_DIGITS && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Returns the id of the block with this group name and `id` text in a session; `None` if no block
/// can have this name.
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

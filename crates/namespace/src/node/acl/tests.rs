//! Access control lists: their format, and their relation to permission bits.

use proptest::prelude::*;

use super::{Acl, ENTRIES_MAX, NotAnAcl};

/// The subjects of entries, as Linux numbers them.
const OWNER: u16 = 1;
const USER: u16 = 2;
const OWNING_GROUP: u16 = 4;
const GROUP: u16 = 8;
const MASK: u16 = 16;
const OTHERS: u16 = 32;

fn bytes(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0];
    for (subject, permission, id) in entries {
        bytes.extend_from_slice(&subject.to_le_bytes());
        bytes.extend_from_slice(&permission.to_le_bytes());
        bytes.extend_from_slice(&id.to_le_bytes());
    }
    bytes
}

fn parse(entries: &[(u16, u16, u32)]) -> Result<Option<Acl>, NotAnAcl> {
    Acl::parse(&bytes(entries))
}

fn acl(entries: &[(u16, u16, u32)]) -> Acl {
    parse(entries).unwrap().unwrap()
}

const ID: u32 = u32::MAX;

/// The list that `setfacl -m u:1000:rw` makes from mode 0644.
const NAMED: [(u16, u16, u32); 5] =
    [(OWNER, 6, ID), (USER, 6, 1_000), (OWNING_GROUP, 4, ID), (MASK, 6, ID), (OTHERS, 4, ID)];

#[test]
fn linux_format_round_trips_byte_by_byte() {
    let bytes = [
        2, 0, 0, 0, // the version
        1, 0, 6, 0, 255, 255, 255, 255, // the owner
        2, 0, 6, 0, 0xe8, 3, 0, 0, // user 1000
        4, 0, 4, 0, 255, 255, 255, 255, // the group
        16, 0, 6, 0, 255, 255, 255, 255, // the mask
        32, 0, 4, 0, 255, 255, 255, 255, // the others
    ];
    let parsed = Acl::parse(&bytes).unwrap().unwrap();
    assert_eq!(parsed, acl(&NAMED));
    assert_eq!(&parsed.to_bytes()[..], bytes);
}

#[test]
fn invalid_lists_are_refused() {
    let minimal = [(OWNER, 6, ID), (OWNING_GROUP, 4, ID), (OTHERS, 4, ID)];
    assert!(parse(&minimal).unwrap().is_some());
    assert_eq!(parse(&[]), Ok(None), "without entries it is none");
    let invalid: [&[_]; 11] = [
        &minimal[1..],
        &minimal[..2],
        &[minimal[0], minimal[2]],
        &[minimal[0], minimal[0], minimal[1], minimal[2]],
        &[minimal[1], minimal[0], minimal[2]],
        &[minimal[0], (USER, 6, 1), minimal[1], minimal[2]],
        &[minimal[0], minimal[1], (GROUP, 6, 1), minimal[2]],
        &[minimal[0], minimal[1], (MASK, 6, ID), (MASK, 6, ID), minimal[2]],
        &[(OWNER, 8, ID), minimal[1], minimal[2]],
        &[minimal[0], (USER, 6, ID), minimal[1], (MASK, 6, ID), minimal[2]],
        &[minimal[0], minimal[1], (3, 6, ID), minimal[2]],
    ];
    for entries in invalid {
        assert_eq!(parse(entries), Err(NotAnAcl::Invalid), "{entries:?}");
    }
    let mut list = bytes(&minimal);
    list.push(0);
    assert_eq!(Acl::parse(&list), Err(NotAnAcl::Invalid));
    assert_eq!(Acl::parse(&[2, 0]), Err(NotAnAcl::Invalid));
    list[0] = 3;
    assert_eq!(Acl::parse(&list), Err(NotAnAcl::Form));
}

#[test]
fn list_with_too_many_entries_is_refused() {
    let with = |users: usize| {
        let mut entries = vec![(OWNER, 6, ID)];
        entries.extend((0..u32::try_from(users).unwrap()).map(|id| (USER, 4, id)));
        entries.extend([(OWNING_GROUP, 4, ID), (MASK, 6, ID), (OTHERS, 4, ID)]);
        parse(&entries)
    };
    assert!(with(ENTRIES_MAX - 4).unwrap().is_some());
    assert_eq!(with(ENTRIES_MAX - 3), Err(NotAnAcl::TooLong));
}

#[test]
fn group_bits_equal_the_mask() {
    assert_eq!(acl(&NAMED).mode(0o2000), 0o2664);
    let minimal = acl(&[(OWNER, 7, ID), (OWNING_GROUP, 5, ID), (OTHERS, 1, ID)]);
    assert_eq!(minimal.mode(0o4777), 0o4751);
    assert!(minimal.is_mode() && !acl(&NAMED).is_mode());
    let masked = acl(&[(OWNER, 7, ID), (OWNING_GROUP, 7, ID), (MASK, 1, ID), (OTHERS, 0, ID)]);
    assert_eq!(masked.mode(0), 0o710);
    assert!(!masked.is_mode(), "a mask says more than bits do");
}

#[test]
fn mode_change_affects_the_mask_and_not_masked_entries() {
    let mut expected = NAMED;
    (expected[0].1, expected[3].1, expected[4].1) = (7, 0, 1);
    assert_eq!(acl(&NAMED).with_mode(0o4701), acl(&expected));
}

#[test]
fn new_node_gets_permissions_that_list_and_mode_both_grant() {
    let default = [
        (OWNER, 7, ID),
        (USER, 7, 1_000),
        (OWNING_GROUP, 5, ID),
        (GROUP, 6, 50),
        (MASK, 7, ID),
        (OTHERS, 5, ID),
    ];
    let (list, mode) = acl(&default).inherited(0o1640);
    let mut expected = default;
    (expected[0].1, expected[4].1, expected[5].1) = (6, 4, 0);
    assert_eq!((list, mode), (Some(acl(&expected)), 0o1640));
    let (list, mode) = acl(&default).inherited(0o777);
    assert_eq!((list, mode), (Some(acl(&default)), 0o775));
    let minimal = [(OWNER, 7, ID), (OWNING_GROUP, 5, ID), (OTHERS, 0, ID)];
    assert_eq!(acl(&minimal).inherited(0o666), (None, 0o640), "bits say it all");
}

/// All valid lists.
fn lists() -> impl Strategy<Value = Acl> {
    let named = || proptest::collection::vec((0..8_u16, 0..5_u32), 0..4);
    (named(), named(), [0..8_u16, 0..8_u16, 0..8_u16, 0..8_u16], any::<bool>()).prop_map(
        |(users, groups, [owner, group, mask, others], masked)| {
            let masked = masked || !users.is_empty() || !groups.is_empty();
            let mut entries = vec![(OWNER, owner, ID)];
            entries.extend(users.into_iter().map(|(bits, id)| (USER, bits, id)));
            entries.push((OWNING_GROUP, group, ID));
            entries.extend(groups.into_iter().map(|(bits, id)| (GROUP, bits, id)));
            entries.extend(masked.then_some((MASK, mask, ID)));
            entries.push((OTHERS, others, ID));
            acl(&entries)
        },
    )
}

proptest! {
    #[test]
    fn list_round_trips(list in lists()) {
        prop_assert_eq!(Acl::parse(&list.to_bytes()), Ok(Some(list)));
    }

    #[test]
    fn random_bytes_are_a_list_that_round_trips_or_an_error(bytes in proptest::collection::vec(0..40_u8, 0..60)) {
        if let Ok(Some(list)) = Acl::parse(&bytes) {
            prop_assert_eq!(Acl::parse(&list.to_bytes()), Ok(Some(list)));
        }
    }

    #[test]
    fn list_and_mode_agree(list in lists(), mode in 0..0o10000_u32) {
        prop_assert_eq!(list.clone().with_mode(mode).mode(0), mode & 0o777);
        let bits = list.mode(mode);
        prop_assert_eq!(bits & !0o777, mode & !0o777);
        prop_assert_eq!(list.clone().with_mode(bits), list);
    }

    #[test]
    fn new_node_never_gets_more_than_requested(list in lists(), wanted in 0..0o10000_u32) {
        let (given, mode) = list.clone().inherited(wanted);
        prop_assert_eq!(mode & !wanted, 0);
        prop_assert_eq!(mode & 0o777 & !list.mode(0), 0);
        prop_assert_eq!(given.is_none(), list.is_mode());
        prop_assert_eq!(given.map_or(mode, |given| given.mode(mode)), mode);
    }
}

use super::{Owner, shown_owner};

#[test]
fn the_user_who_mounts_owns_all_files_unless_an_option_says_otherwise() {
    assert_eq!(shown_owner(None, 1000, false), Some(1000));
    assert_eq!(shown_owner(None, 0, true), None, "root sees the owner of each file");
    assert_eq!(shown_owner(Some(Owner::Own), 1000, false), None);
    assert_eq!(shown_owner(Some(Owner::Number(7)), 1000, false), Some(7));
    assert_eq!(shown_owner(Some(Owner::Number(0)), 0, true), Some(0));
}

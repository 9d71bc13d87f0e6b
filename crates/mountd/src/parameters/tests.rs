use super::ShownOwner;

#[test]
fn the_user_who_mounts_owns_all_files_unless_an_option_says_otherwise() {
    assert_eq!(ShownOwner::Mounter.number(1000, false), Some(1000));
    assert_eq!(ShownOwner::Mounter.number(0, true), None, "root sees the owner of each file");
    assert_eq!(ShownOwner::Own.number(1000, false), None);
    assert_eq!(ShownOwner::Number(7).number(1000, false), Some(7));
    assert_eq!(ShownOwner::Number(0).number(0, true), Some(0));
}

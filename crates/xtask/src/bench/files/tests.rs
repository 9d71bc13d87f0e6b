use std::collections::BTreeSet;

use super::super::options::tests::options;
use super::*;

fn picked(words: &[&str]) -> Vec<Group> {
    wanted(&options(words))
}

#[test]
fn rows_are_selected_by_words_of_their_names() {
    assert_eq!(picked(&["--files"]), Group::ALL);
    assert_eq!(picked(&["--files", "--only", "untar,clone"]), [Group::Unpack, Group::Trees]);
    assert_eq!(picked(&["--files", "--only", "unlink ×4"]), [Group::Entries(4)]);
    assert_eq!(picked(&["--files", "--only", "random"]), [Group::Cached]);
    assert!(picked(&["--files", "--only", "nothing"]).is_empty());
}

#[test]
fn names_of_rows_differ() {
    let names: Vec<String> = Group::ALL.iter().flat_map(|group| group.names()).collect();
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
    assert_eq!(names.len(), 22);
}

#[test]
fn groups_that_compare_with_minio_only_need_it() {
    let needing: Vec<Group> = Group::ALL.into_iter().filter(|it| it.needs_minio()).collect();
    assert_eq!(needing, [Group::Overwrites, Group::Large]);
}

//! Files that take blocks of other files.

use namespace::{ContentChange, FsError, SharedRange};
use record::key::space;
use record::{Encryption, Tag};
use store::Value;

use crate::content::{LENT, Model, write};

#[test]
fn sharing_within_one_file_adds_no_share_records() {
    let model = Model::new();
    for (from, to) in [(300, 1_000), (0, 2_000), (0, 350)] {
        let shared = SharedRange { source: model.lender, ..model.taken(from, 100, to) };
        write(&model.world, model.lender, &ContentChange::Share(shared)).unwrap();
        let owners = model.world.state().keys(space::SHARE).len();
        assert_eq!(owners, 1, "that of the pack");
        model.world.audit();
    }
    let stale = SharedRange { record: Value::from_static(b"another"), ..model.taken(0, 9, 0) };
    let answer = write(&model.world, model.lender, &ContentChange::Share(stale));
    assert_eq!(answer.unwrap_err(), FsError::SourceChanged);
}

#[test]
fn a_file_takes_no_blocks_of_another_mode_of_encryption() {
    let model = Model::new();
    let other = SharedRange { encryption: Some(Encryption::S3), ..model.taken(0, 9, 0) };
    let answer = write(&model.world, model.ino, &ContentChange::Share(other));
    assert_eq!(answer.unwrap_err(), FsError::ContentReplaced);
    let same = model.taken(0, 9, 0);
    write(&model.world, model.ino, &ContentChange::Share(same)).unwrap();
}

#[test]
fn clone_of_a_complete_file_has_its_entity_tag() {
    let tag = Tag::Md5([5; 16]);
    for (before, from, expected) in
        [(0, 0, tag), (700, 0, Tag::Md5([9; 16])), (0, 7, Tag::Md5([9; 16]))]
    {
        let model = Model::new();
        write(&model.world, model.ino, &ContentChange::Truncate(before)).unwrap();
        let shared = SharedRange { tag: Some(tag), ..model.taken(0, LENT, from) };
        let taken = write(&model.world, model.ino, &ContentChange::Share(shared)).unwrap();
        assert_eq!(taken.inode.file().unwrap().tag, expected);
    }
}

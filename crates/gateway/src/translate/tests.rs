//! The text of entity tags, and storage classes.

use record::Tag;

use super::{etag, tags_of};

#[test]
fn an_entity_tag_is_among_those_that_its_text_may_mean() {
    let tags = [Tag::Md5([1; 16]), Tag::Multipart([2; 16], 10_000), Tag::opaque([3; 16])];
    for tag in tags {
        assert!(tags_of(&etag(&tag)).contains(&tag), "{tag:?}");
    }
}

#[test]
fn an_opaque_tag_does_not_look_like_an_md5() {
    let text = etag(&Tag::opaque([0xab; 16]));
    assert_eq!(text, "abababababababababababababababab-1");
    assert!(!tags_of(&text).contains(&Tag::Md5([0xab; 16])));
}

#[test]
fn every_s3_storage_class_fits_in_a_file_head() {
    let mut kept = record::STORAGE_CLASSES;
    kept.sort_unstable();
    assert_eq!(kept, s3::metadata::STORAGE_CLASSES);
}

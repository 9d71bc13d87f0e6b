//! Attributes, and extended attributes.

use bytes::Bytes;
use namespace::{
    AttributeChange, CONTENT_HEADERS_BYTES_MAX, FILE_MODE, FindXattr, FoundNode, FsError, NodeName,
    OBJECT_TAGS_MAX, ObjectItem, SetObjectItem, SetXattr, USER_METADATA_BYTES_MAX, XattrChange,
};
use record::{
    Header, Ino, Inode, ObjectHeaders, XATTR_BYTES_MAX, XATTR_INLINE_BYTES_MAX, XattrPlace,
    key::space,
};

use crate::world::{B, KEPT, World, at};
use XattrChange::{Create, Remove, Replace, Set};

fn value(length: usize) -> Bytes {
    Bytes::from(vec![b'v'; length])
}

fn change(
    world: &World,
    ino: Ino,
    known_name: Option<&NodeName>,
    name: &str,
    change: &XattrChange,
) -> Result<FoundNode, FsError> {
    world.run(&SetXattr { ino, known_name, name: name.as_bytes(), change })
}

fn get(world: &World, ino: Ino, name: &str) -> Result<Bytes, FsError> {
    world.run(&FindXattr { ino, name: name.as_bytes() })
}

/// The number of long attributes with a record of their own.
fn long_values(world: &World) -> usize {
    world.state().keys(space::XATTR).len()
}

#[test]
fn xattr_can_be_set_replaced_and_removed() {
    let world = World::new();
    let ino = world.file(B, "f", 1);
    assert_eq!(get(&world, ino, "user.a"), Err(FsError::NoSuchAttribute));
    change(&world, ino, None, "user.b", &Set(value(3))).unwrap();
    change(&world, ino, None, "user.a", &Create(value(0))).unwrap();
    let found = change(&world, ino, None, "user.b", &Replace(value(4))).unwrap();
    let names: Vec<&[u8]> = found.inode.xattrs.iter().map(|x| &x.name[..]).collect();
    assert_eq!(names, [b"user.a", b"user.b"], "in order");
    assert_eq!(
        (get(&world, ino, "user.a"), get(&world, ino, "user.b")),
        (Ok(value(0)), Ok(value(4)))
    );
    change(&world, ino, None, "user.a", &Remove).unwrap();
    assert_eq!(get(&world, ino, "user.a"), Err(FsError::NoSuchAttribute));
    world.audit();
}

#[test]
fn xattr_create_needs_absence_and_replace_and_remove_need_presence() {
    let world = World::new();
    let ino = world.file(B, "f", 1);
    for length in [1, XATTR_BYTES_MAX] {
        for absent in [Replace(value(1)), Remove] {
            let changed = change(&world, ino, None, "user.a", &absent);
            assert_eq!(changed.unwrap_err(), FsError::NoSuchAttribute);
        }
        change(&world, ino, None, "user.a", &Create(value(length))).unwrap();
        let changed = change(&world, ino, None, "user.a", &Create(value(2)));
        assert_eq!(changed.unwrap_err(), FsError::AttributeExists);
        assert_eq!(get(&world, ino, "user.a"), Ok(value(length)));
        change(&world, ino, None, "user.a", &Remove).unwrap();
        world.audit();
    }
}

#[test]
fn long_xattr_has_its_own_record_and_returns_inline_when_short() {
    let world = World::new();
    let ino = world.file(B, "f", 1);
    let lengths =
        [1, XATTR_INLINE_BYTES_MAX, XATTR_INLINE_BYTES_MAX + 1, XATTR_BYTES_MAX, 2, 5_000];
    for length in lengths {
        change(&world, ino, None, "user.a", &Set(value(length))).unwrap();
        assert_eq!(get(&world, ino, "user.a"), Ok(value(length)));
        assert_eq!(long_values(&world), usize::from(length > XATTR_INLINE_BYTES_MAX), "{length}");
        world.audit();
    }
    change(&world, ino, None, "user.a", &Remove).unwrap();
    assert_eq!(long_values(&world), 0);
    world.audit();
}

#[test]
fn many_short_xattrs_move_to_their_own_records() {
    let world = World::new();
    let ino = world.file(B, "f", 1);
    for n in 0..20 {
        change(&world, ino, None, &format!("user.{n:02}"), &Set(value(1_000))).unwrap();
    }
    assert!(long_values(&world) >= 12, "8 KiB are enough for 8 of them");
    for n in 0..20 {
        assert_eq!(get(&world, ino, &format!("user.{n:02}")), Ok(value(1_000)));
    }
    world.audit();
}

#[test]
fn xattr_names_are_limited_to_the_longest_list() {
    let world = World::new();
    let ino = world.file(B, "f", 1);
    let name = |n: usize| format!("user.{n:0250}");
    for n in 0..256 {
        change(&world, ino, None, &name(n), &Set(value(0))).unwrap();
    }
    let changed = change(&world, ino, None, &name(256), &Set(value(0)));
    assert_eq!(changed.unwrap_err(), FsError::TooManyAttributes);
    change(&world, ino, None, &name(0), &Remove).unwrap();
    change(&world, ino, None, &name(256), &Set(value(0))).unwrap();
}

#[test]
fn object_with_a_long_xattr_is_not_self_contained() {
    let world = World::new();
    let ino = world.put("a", 5);
    let long = Set(value(5_000));
    for known_name in [None, Some(at(B, "other"))] {
        let changed = change(&world, ino, known_name.as_ref(), "user.a", &long);
        assert_eq!(changed.unwrap_err(), FsError::Stale);
    }
    change(&world, ino, None, "user.short", &Set(value(5))).unwrap();
    world.audit();
    change(&world, ino, Some(&at(B, "a")), "user.a", &long).unwrap();
    world.audit();
    world.delete(&[b"a"]);
    // The reaper reads the inode, and finds its other records.
    assert_eq!(world.state().keys(space::ORPHAN).len(), 1);
    let inode = world.state().inode(ino);
    assert!(inode.xattrs.iter().any(|xattr| matches!(xattr.value, XattrPlace::Apart(_))));
    world.audit();
}

#[test]
fn implied_directory_with_a_long_xattr_becomes_a_made_one() {
    let world = World::new();
    world.put("a/b/x", 1);
    let a = world.find(&at(B, "a")).unwrap();
    let b = world.find(&at(a, "b")).unwrap();
    change(&world, b, None, "user.short", &Set(value(5))).unwrap();
    change(&world, a, None, "user.a", &Set(value(5_000))).unwrap();
    world.delete(&[b"a/b/x"]);
    assert_eq!(world.keys(), ["a/"]);
    assert_eq!(get(&world, a, "user.a"), Ok(value(5_000)));
    world.audit();
}

#[test]
fn removing_a_directory_removes_its_long_xattrs() {
    let world = World::new();
    for name in ["d", "e"] {
        let ino = world.mkdir(B, name);
        change(&world, ino, None, "user.a", &Set(value(5_000))).unwrap();
        change(&world, ino, None, "user.b", &Set(value(5))).unwrap();
    }
    world.mkdir(B, "over");
    world.rename(&at(B, "over"), &at(B, "e"), namespace::RenameMode::Replace).unwrap();
    assert_eq!(long_values(&world), 1);
    world.rmdir(B, "d").unwrap();
    assert_eq!(long_values(&world), 0);
    world.audit();
}

#[test]
fn attributes_of_a_removed_node_are_stale() {
    let world = World::new();
    let ino = world.mkdir(B, "d");
    world.rmdir(B, "d").unwrap();
    assert_eq!(get(&world, ino, "user.a"), Err(FsError::Stale));
    let changed = change(&world, ino, None, "user.a", &Set(value(1)));
    assert_eq!(changed.unwrap_err(), FsError::Stale);
    assert_eq!(world.set(ino, KEPT).unwrap_err(), FsError::Stale);
}

#[test]
fn attribute_change_keeps_the_other_attributes() {
    let world = World::new();
    let ino = world.put("f", 1);
    let before = world.node(ino).unwrap().inode.attributes;
    assert_eq!((before.mode, before.uid, before.gid), (FILE_MODE, 1, 2));
    let owner = AttributeChange { uid: Some(9), ..KEPT };
    let after = world.set(ino, owner).unwrap().inode.attributes;
    assert_eq!((after.mode, after.uid, after.gid), (FILE_MODE, 9, 2));
    assert_eq!((after.modified, after.accessed), (before.modified, before.accessed));
    assert_eq!(after.changed, before.changed, "S3 shows when the object was put");
    assert!(after.status_changed > before.status_changed);
    assert_eq!(world.node(ino).unwrap().inode.attributes, after);
    world.audit();
}

#[test]
fn drop_rights_affects_files_but_not_directories() {
    let world = World::new();
    let (file, directory) = (world.file(B, "f", 1), world.mkdir(B, "d"));
    let modes = [(0o6755, 0o755), (0o6744, 0o2744), (0o1777, 0o1777)];
    for (mode, dropped) in modes {
        let drop = |ino| {
            let given = AttributeChange { mode: Some(mode), ..KEPT };
            world.set(ino, given).unwrap();
            let dropped = AttributeChange { drop_rights: true, ..KEPT };
            world.set(ino, dropped).unwrap().inode.attributes.mode
        };
        assert_eq!((drop(file), drop(directory)), (dropped, mode), "{mode:o}");
    }
}

fn item(
    world: &World,
    ino: Ino,
    item: &ObjectItem,
    value: Option<&str>,
    had: Option<bool>,
) -> Result<FoundNode, FsError> {
    world.run(&SetObjectItem { ino, item, value, must_exist: had })
}

/// The S3 metadata of a file.
fn s3_metadata(world: &World, ino: Ino) -> ObjectHeaders {
    world.node(ino).unwrap().inode.file().unwrap().object.clone()
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn s3_metadata_changes_item_by_item_and_stays_sorted() {
    let world = World::new();
    let ino = world.put("f", 5);
    let before = world.node(ino).unwrap().inode;
    let (language, kind) = (Header::ContentLanguage, Header::ContentType);
    for (header, value) in [(language, "de"), (kind, "text/plain"), (language, "en")] {
        item(&world, ino, &ObjectItem::Header(header), Some(value), None).unwrap();
    }
    for (name, value) in [("b", "1"), ("c", ""), ("a", "2"), ("b", "3")] {
        item(&world, ino, &ObjectItem::User(name.to_owned()), Some(value), None).unwrap();
        item(&world, ino, &ObjectItem::Tag(name.to_owned()), Some(value), None).unwrap();
    }
    item(&world, ino, &ObjectItem::Tag("c".to_owned()), None, None).unwrap();
    let user = [("a", "2"), ("b", "3"), ("c", "")];
    let headers = vec![(kind, "text/plain".to_owned()), (language, "en".to_owned())];
    let expected = ObjectHeaders {
        headers,
        user: pairs(&user),
        tags: pairs(&user[..2]),
        ..ObjectHeaders::default()
    };
    assert_eq!(s3_metadata(&world, ino), expected);
    let after = world.node(ino).unwrap().inode;
    let file = |inode: &Inode| inode.file().map(|file| (file.tag, file.data_version)).unwrap();
    assert_eq!(file(&after), file(&before));
    assert_eq!(after.attributes.changed, before.attributes.changed, "S3 shows the same time");
    assert_eq!(after.attributes.modified, before.attributes.modified);
    assert!(after.attributes.status_changed > before.attributes.status_changed);
    world.audit();
}

#[test]
fn s3_item_must_exist_or_not_as_requested() {
    let world = World::new();
    let (ino, directory) = (world.file(B, "f", 1), world.mkdir(B, "d"));
    for tag in [ObjectItem::Tag("t".to_owned()), ObjectItem::Header(Header::Expires)] {
        let absent = item(&world, ino, &tag, Some("v"), Some(true));
        assert_eq!(absent.unwrap_err(), FsError::NoSuchAttribute);
        let absent = item(&world, ino, &tag, None, Some(true));
        assert_eq!(absent.unwrap_err(), FsError::NoSuchAttribute);
        item(&world, ino, &tag, Some("v"), Some(false)).unwrap();
        let there = item(&world, ino, &tag, Some("w"), Some(false));
        assert_eq!(there.unwrap_err(), FsError::AttributeExists);
        item(&world, ino, &tag, Some("w"), Some(true)).unwrap();
        assert_eq!(tag.value(&s3_metadata(&world, ino)), Some("w"));
        item(&world, ino, &tag, None, Some(true)).unwrap();
        assert_eq!(item(&world, directory, &tag, Some("v"), None).unwrap_err(), FsError::NoObject);
    }
    assert_eq!(s3_metadata(&world, ino), ObjectHeaders::default());
}

#[test]
fn s3_metadata_of_a_file_is_limited() {
    let world = World::new();
    let ino = world.file(B, "f", 1);
    let user = |name: &str| ObjectItem::User(name.to_owned());
    let long = "v".repeat(USER_METADATA_BYTES_MAX - 3);
    item(&world, ino, &user("a"), Some(&long), None).unwrap();
    item(&world, ino, &user("b"), Some("1"), None).unwrap();
    let one_more = item(&world, ino, &user("c"), Some(""), None);
    assert_eq!(one_more.unwrap_err(), FsError::MetadataTooLarge);
    item(&world, ino, &user("a"), Some(""), None).unwrap();
    item(&world, ino, &user("c"), Some(""), None).unwrap();
    let tag = |n: usize| ObjectItem::Tag(n.to_string());
    for n in 0..OBJECT_TAGS_MAX {
        item(&world, ino, &tag(n), Some("v"), None).unwrap();
    }
    let one_more = item(&world, ino, &tag(OBJECT_TAGS_MAX), Some("v"), None);
    assert_eq!(one_more.unwrap_err(), FsError::TooManyTags);
    item(&world, ino, &tag(0), Some("w"), None).unwrap();
    item(&world, ino, &tag(0), None, None).unwrap();
    item(&world, ino, &tag(OBJECT_TAGS_MAX), Some("v"), None).unwrap();
    let header = ObjectItem::Header(Header::CacheControl);
    let long = "v".repeat(CONTENT_HEADERS_BYTES_MAX + 1);
    let too_long = item(&world, ino, &header, Some(&long), None);
    assert_eq!(too_long.unwrap_err(), FsError::MetadataTooLarge);
    item(&world, ino, &header, Some(&long[1..]), None).unwrap();
    world.audit();
}

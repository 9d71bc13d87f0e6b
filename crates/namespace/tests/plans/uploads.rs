//! Uploads: creating, adding parts, completing, aborting and listing; and staging.

use namespace::{
    AbortUpload, Assumption, CreateUpload, FindUpload, FsError, ListUploads, NamedBucket, Publish,
    PutPart, ReadParts, Stage, TRANSMISSIONS_MAX, Unstage, UploadName, UploadsAfter,
    WriteCondition, end_upload,
};
use record::{Ino, Part, Timestamp, Upload, UploadState, key};
use store::Write;

use crate::acts::{ID, part, upload};
use crate::world::{Cost, World, cost, file, path, tag};

fn name(object: &[u8]) -> UploadName<'_> {
    UploadName { bucket: b"b".into(), object, id: ID }
}

/// Creates an upload. Returns the number of the partition of its parts.
pub(crate) fn begin(world: &World, object: &[u8], id: [u8; 16]) -> Ino {
    let ino = world.ino();
    let name = UploadName { id, ..name(object) };
    let (answer, spent) = world.warm(&CreateUpload { name, upload: &upload(ino) });
    assert_eq!((answer, spent), (Ok(()), cost(0, 1)));
    ino
}

/// The caller has looked at another bucket, which had the name before.
#[test]
fn upload_of_a_replaced_bucket_does_not_begin() {
    let world = World::new();
    let other = NamedBucket { name: b"b", ino: Some(world.ino()) };
    let name = UploadName { bucket: other, ..name(b"a") };
    let create = CreateUpload { name, upload: &upload(world.ino()) };
    assert_eq!(world.warm(&create).0, Err(FsError::NoSuchBucket));
    let list = ListUploads { bucket: b"b".into(), prefix: b"", after: None, limit: 10 };
    assert!(world.warm(&list).0.unwrap().0.is_empty());
}

fn put_part(world: &World, object: &[u8], number: u16, size: u64) -> (Result<Ino, FsError>, Cost) {
    let (owner, name) = (world.ino(), name(object));
    let part = Part { owner, size, ..part() };
    let put = PutPart { name, number, part: &part, assumptions: &[], writes: &[] };
    let (answer, spent) = world.warm(&put);
    (answer.map(|_| owner), spent)
}

/// Completes an upload that was found in the state `seen`.
fn complete(world: &World, object: &[u8], seen: &Assumption) -> (Result<(), FsError>, Cost) {
    let at = path(object);
    let open = Upload::decode(&seen.key, &seen.value).unwrap();
    let ino = world.ino();
    let used = vec![Ino(7)];
    let done = UploadState::Done { ino, tag: tag(5), sums: vec![], used, at: Timestamp(1) };
    let writes = end_upload(&seen.key, &Upload { state: done, ..open });
    let fresh: Vec<Ino> = at.directories.iter().map(|_| world.ino()).collect();
    let publish = Publish {
        path: &at,
        ino,
        fresh: &fresh,
        inode: &file(5),
        condition: &WriteCondition::None,
        assumptions: std::slice::from_ref(seen),
        writes: &writes,
    };
    let (answer, spent) = world.warm(&publish);
    world.audit();
    (answer.map(|_| ()), spent)
}

fn seen(world: &World, object: &[u8]) -> Assumption {
    let found = world.warm(&FindUpload { name: name(object) }).0.unwrap();
    Assumption { key: found.key, value: found.record, otherwise: FsError::NoSuchUpload }
}

#[test]
fn upload_is_created_and_completed() {
    let world = World::new();
    begin(&world, b"a/x", ID);
    assert_eq!(put_part(&world, b"a/x", 2, 20).1, cost(0, 1));
    assert_eq!(put_part(&world, b"a/x", 1, 10).1, cost(0, 1));
    let open = seen(&world, b"a/x");
    assert_eq!(complete(&world, b"a/x", &open), (Ok(()), cost(0, 1)));
    // The upload is not open any more, and its record shows how it ended.
    assert_eq!(complete(&world, b"a/x", &open).0, Err(FsError::NoSuchUpload));
    assert_eq!(put_part(&world, b"a/x", 3, 30).0, Err(FsError::NoSuchUpload));
    assert_eq!(world.warm(&AbortUpload { name: name(b"a/x") }).0, Err(FsError::NoSuchUpload));
    let (found, spent) = world.warm(&FindUpload { name: name(b"a/x") });
    assert_eq!(spent, cost(1, 0));
    assert!(matches!(found.unwrap().upload.state, UploadState::Done { .. }));
}

#[test]
fn aborted_upload_accepts_no_parts() {
    let world = World::new();
    let ino = begin(&world, b"a/x", ID);
    let open = seen(&world, b"a/x");
    assert_eq!(world.warm(&AbortUpload { name: name(b"a/x") }), (Ok(()), cost(0, 1)));
    assert!(world.state().records.contains_key(&key::orphan(ino)), "its parts go to the reaper");
    assert_eq!(put_part(&world, b"a/x", 1, 10).0, Err(FsError::NoSuchUpload));
    assert_eq!(complete(&world, b"a/x", &open).0, Err(FsError::NoSuchUpload));
    let again = CreateUpload { name: name(b"a/x"), upload: &upload(world.ino()) };
    let contended = world.cold(&again).0;
    assert_eq!(contended, Err(FsError::Contended), "an id is drawn once");
    for absent in [&b"a/y"[..], b"a", b""] {
        assert_eq!(world.cold(&FindUpload { name: name(absent) }).0, Err(FsError::NoSuchUpload));
    }
}

#[test]
fn copied_part_is_refused_if_its_source_changes() {
    let world = World::new();
    begin(&world, b"x", ID);
    let source = key::inode(Ino(1_024));
    let value = world.state().records[&source].clone();
    let (name, part) = (name(b"x"), part());
    let put = |key, value| {
        let assumptions = [Assumption { key, value, otherwise: FsError::SourceChanged }];
        let put = PutPart { name, number: 1, part: &part, assumptions: &assumptions, writes: &[] };
        world.cold(&put).0
    };
    assert!(put(source.clone(), value).is_ok());
    let changed = store::Value::from_static(b"changed");
    assert_eq!(put(source, changed), Err(FsError::SourceChanged));
}

#[test]
fn transmissions_are_numbered_in_commit_order() {
    let world = World::new();
    let upload = begin(&world, b"x", ID);
    let owners: Vec<Ino> = (0..3)
        .map(|before| {
            let (owner, spent) = put_part(&world, b"x", 7, 10 + before);
            // The hints show that the part was sent before, and a read shows how many times.
            assert_eq!(spent, if before == 0 { cost(0, 1) } else { cost(1, 1) });
            owner.unwrap()
        })
        .collect();
    for (before, owner) in (0..).zip(owners) {
        let key = key::part(upload, 7, before);
        let part = Part::decode(&key, &world.state().records[&key]).unwrap();
        assert_eq!((part.owner, part.size), (owner, 10 + u64::from(before)));
    }
}

#[test]
fn transmissions_of_a_part_are_limited() {
    let world = World::new();
    begin(&world, b"x", ID);
    for _ in 0..TRANSMISSIONS_MAX {
        put_part(&world, b"x", 7, 10).0.unwrap();
    }
    assert_eq!(put_part(&world, b"x", 7, 10).0, Err(FsError::TooManyTransmissions));
    assert!(put_part(&world, b"x", 8, 10).0.is_ok());
}

#[test]
fn parts_are_listed_by_number_and_transmission() {
    let world = World::new();
    begin(&world, b"x", ID);
    begin(&world, b"y", ID);
    for (number, size) in [(3, 3), (1, 1), (10_000, 4), (3, 30), (2, 2)] {
        put_part(&world, b"x", number, size).0.unwrap();
        put_part(&world, b"y", number, 99).0.unwrap();
    }
    let list = |after, resume, limit| {
        let list = ReadParts { name: name(b"x"), after, resume, limit };
        let (page, spent) = world.warm(&list);
        assert_eq!(spent, cost(1, 0));
        page.unwrap()
    };
    let shown = |after, limit| {
        let page = list(after, None, limit);
        let parts: Vec<_> = page.parts.iter().map(|p| (p.number, p.part.size)).collect();
        (parts, page.truncated)
    };
    assert_eq!(shown(0, 100), (vec![(1, 1), (2, 2), (3, 3), (3, 30), (10_000, 4)], false));
    assert_eq!(shown(0, 2), (vec![(1, 1), (2, 2)], true));
    assert_eq!(shown(2, 2), (vec![(3, 3), (3, 30)], true));
    assert_eq!(shown(3, 2), (vec![(10_000, 4)], false));
    assert_eq!(shown(10_000, 2), (vec![], false));
    let first = list(2, None, 1);
    let resume = first.parts.last().map(|part| (part.number, part.transmission));
    let next = list(0, resume, 1).parts.remove(0);
    assert_eq!((next.number, next.part.size), (3, 30), "between two transmissions of one part");
}

#[test]
fn uploads_are_listed_by_key_then_id() {
    let world = World::new();
    let all: [(&[u8], u8); 6] =
        [(b"a", 2), (b"a", 1), (b"a/b", 1), (b"a/c", 1), (b"a-", 1), (b"b", 1)];
    for (object, id) in all {
        begin(&world, object, [id; 16]);
    }
    let ended = UploadName { id: [1; 16], ..name(b"a/b") };
    world.warm(&AbortUpload { name: ended }).0.unwrap();
    let list = |prefix: &[u8], after: Option<UploadsAfter>, limit| {
        let list = ListUploads { bucket: b"b".into(), prefix, after: after.as_ref(), limit };
        let (page, spent) = world.warm(&list);
        assert!(spent.reads <= 1 && spent.commits == 0);
        let (uploads, truncated) = page.unwrap();
        let open = uploads.iter().filter(|listed| listed.upload.state == UploadState::Open);
        let shown =
            |l: &namespace::ListedUpload| (String::from_utf8(l.object.clone()).unwrap(), l.id[0]);
        (open.map(shown).collect::<Vec<_>>(), truncated)
    };
    let named = |pairs: &[(&str, u8)]| -> Vec<(String, u8)> {
        pairs.iter().map(|(object, id)| ((*object).to_owned(), *id)).collect()
    };
    let everything = named(&[("a", 1), ("a", 2), ("a-", 1), ("a/c", 1), ("b", 1)]);
    assert_eq!(list(b"", None, 100), (everything, false), "but for the one that ended");
    assert_eq!(list(b"a/", None, 100), (named(&[("a/c", 1)]), false));
    assert_eq!(list(b"", None, 2), (named(&[("a", 1), ("a", 2)]), true));
    let behind = UploadsAfter::Upload(b"a".to_vec(), [1; 16]);
    assert_eq!(list(b"", Some(behind), 1), (named(&[("a", 2)]), true));
    let behind = UploadsAfter::Object(b"a".to_vec());
    assert_eq!(list(b"", Some(behind), 1), (named(&[("a-", 1)]), true));
    let behind = UploadsAfter::Prefix(b"a".to_vec());
    assert_eq!(list(b"", Some(behind.clone()), 9), (named(&[("b", 1)]), false));
    assert_eq!(list(b"a", Some(behind), 9), (vec![], false), "all of the prefix is behind");
    let before = UploadsAfter::Object(b"0".to_vec());
    assert_eq!(list(b"b", Some(before), 9), (named(&[("b", 1)]), false));
    assert_eq!(list(b"c", None, 9), (vec![], false));
}

#[test]
fn staged_records_have_a_mark_until_they_are_removed() {
    let world = World::new();
    let ino = world.ino();
    let before = world.state();
    let pages = [0, 1].map(|page| {
        let key = key::map_page(ino, page);
        Write::Put(key.clone(), record::MapPage(vec![]).encode(&key))
    });
    for page in &pages {
        let writes = std::slice::from_ref(page);
        let stage = Stage { ino, assumptions: &[], writes };
        assert_eq!(world.cold(&stage), (Ok(()), cost(0, 1)));
    }
    let mark = key::staged(crate::world::NONCE, ino);
    assert_eq!(world.state().records.len(), before.records.len() + 3);
    let unstage = |writes, last| world.cold(&Unstage { ino, writes, last });
    assert_eq!(unstage(&pages[..1], false), (Ok(()), cost(0, 1)));
    assert!(world.state().records.contains_key(&mark), "the mark goes last");
    assert_eq!(unstage(&pages[1..], true), (Ok(()), cost(0, 1)));
    assert_eq!(world.state(), before);

    let (key, value) = (key::inode(Ino(1_024)), store::Value::from_static(b"another"));
    let assumptions = [Assumption { key, value, otherwise: FsError::SourceChanged }];
    let stage = Stage { ino, assumptions: &assumptions, writes: &pages };
    assert_eq!(world.cold(&stage).0, Err(FsError::SourceChanged));
    assert_eq!(world.state(), before);
}

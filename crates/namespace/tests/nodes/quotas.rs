//! Quotas: an operation that would grow a bucket beyond its quota is refused, and no other is.

use namespace::{BucketChange, ContentChange, FsError, Path, Published, SetBucket};
use record::Quota;
use store::Guard;

use crate::content::write;
use crate::world::{B, Cost, World, at, inline, object_of, publish};

fn bound(world: &World, bytes: Option<u64>, objects: Option<u64>) {
    let change = BucketChange::Quota(Quota { bytes, objects });
    world.run(&SetBucket { bucket: b"b".into(), change }).unwrap();
}

fn put(world: &World, object: &str, size: usize) -> (Result<Published, FsError>, Cost) {
    let (path, inode) = (Path::new(b"b", object.as_bytes()), object_of(inline(size)));
    let fresh: Vec<_> = path.directories.iter().map(|_| world.ino()).collect();
    world.warm(&publish(&path, world.ino(), &fresh, &inode))
}

fn is_put(world: &World, object: &str, size: usize) -> bool {
    match put(world, object, size).0 {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(error, FsError::QuotaExceeded, "{object}");
            false
        }
    }
}

#[test]
fn bucket_accepts_objects_up_to_its_quota() {
    let world = World::new();
    bound(&world, None, Some(2));
    assert!(is_put(&world, "a", 1) && is_put(&world, "d/b", 1));
    assert!(!is_put(&world, "c", 1));
    assert!(!is_put(&world, "e/f/g", 0), "nor one of no bytes, in directories of its own");
    assert!(is_put(&world, "a", 7), "what takes the place of another is not one more");
    assert_eq!(world.delete(&[b"d/b"]), [Ok(true)]);
    assert!(is_put(&world, "c", 1) && !is_put(&world, "h", 1));
    assert_eq!(world.keys(), ["a", "c"]);
    world.run(&SetBucket { bucket: b"b".into(), change: BucketChange::NoQuota }).unwrap();
    assert!(is_put(&world, "h", 1));
    world.audit();
}

#[test]
fn bucket_accepts_bytes_up_to_its_quota() {
    let world = World::new();
    bound(&world, Some(10), None);
    assert!(is_put(&world, "a", 6) && !is_put(&world, "b", 5) && is_put(&world, "b", 4));
    assert!(is_put(&world, "c", 0), "an object of no bytes takes no room");
    assert!(is_put(&world, "a", 5) && !is_put(&world, "a", 7) && is_put(&world, "a", 6));
    // A quota may be below the usage. The bucket may then only shrink.
    bound(&world, Some(3), None);
    assert!(!is_put(&world, "d", 1) && is_put(&world, "a", 1) && !is_put(&world, "a", 2));
    assert_eq!(world.delete(&[b"b"]), [Ok(true)]);
    assert!(is_put(&world, "a", 3));
    world.audit();
}

#[test]
fn quota_applies_to_files_of_programs() {
    let world = World::new();
    bound(&world, Some(10), Some(2));
    let ino = world.file(B, "f", 4);
    assert_eq!(
        write(&world, ino, &ContentChange::Truncate(11)).err(),
        Some(FsError::QuotaExceeded)
    );
    write(&world, ino, &ContentChange::Truncate(10)).unwrap();
    assert!(!is_put(&world, "a", 1));
    write(&world, ino, &ContentChange::Truncate(2)).unwrap();
    assert!(is_put(&world, "a", 1));
    let node = namespace::NewNode::File(Box::new(inline(0)));
    assert_eq!(world.make(&at(B, "g"), &node), Err(FsError::QuotaExceeded));
    assert_eq!(world.link(ino, Some(&at(B, "f")), &at(B, "g")).err(), Some(FsError::QuotaExceeded));
    // Names of other nodes than files do not count.
    world.mkdir(B, "d");
    world.symlink(B, "s");
    world.audit();
}

#[test]
fn quota_costs_no_read_until_it_refuses() {
    let world = World::new();
    bound(&world, Some(10), Some(9));
    assert_eq!(put(&world, "a", 4).1, Cost { reads: 0, commits: 1 });
    // The counter is read once after the refusal, because an answer needs a fact.
    assert_eq!(put(&world, "b", 7).1, Cost { reads: 1, commits: 1 });
    assert_eq!(world.warm(&namespace::FindBucket { name: b"b" }).0.unwrap().quota.bytes, Some(10));
}

#[test]
fn quota_refusal_is_planned_again_if_space_was_freed() {
    let world = World::new();
    bound(&world, None, Some(1));
    assert!(is_put(&world, "a", 1));
    let (path, inode) = (Path::new(b"b", b"b"), object_of(inline(1)));
    let operation = publish(&path, world.ino(), &[], &inode);
    let mut run = namespace::Run::new(&operation, world.env());
    let mut refused = 0;
    loop {
        match run.advance(&world.memory) {
            namespace::Next::Commit(plan, _) => match crate::world::decision(&world.store, &plan) {
                store::Verdict::Refused { guard, found } => {
                    assert!(matches!(plan.guards[guard], Guard::AtMost(..)));
                    run.refused(&plan.guards[guard], found);
                    refused += 1;
                    assert_eq!(world.delete(&[b"a"]), [Ok(true)]);
                }
                verdict => {
                    assert_eq!(verdict, store::Verdict::Committed);
                    break;
                }
            },
            namespace::Next::Read(reads) => {
                let found = crate::world::answers(&world.store, &reads);
                run.learn(reads, found);
            }
            next => panic!("{next:?}"),
        }
    }
    assert_eq!((refused, world.keys()), (1, vec!["b".to_owned()]));
}

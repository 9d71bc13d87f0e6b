//! Keys below very many directories: lookups, listings, removals, and their costs.

use std::collections::BTreeSet;

use futures::executor::block_on;
use namespace::{
    Branch, DIRECTORIES_MAX, DIRECTORY_ITEMS, Hints, ListQuery, ListStart, Listing, Lookup, Next,
    NoHints, PAGE_RANGES_MAX, Planner, Publish, REMOVAL_ITEMS, Removal, Remove, Run, WalkStep,
    WriteCondition,
};
use record::Ino;
use store::{MetaStore as _, Plan, Verdict};

use crate::listing::put;
use crate::world::{Cost, World, existed, file, path};

/// The reads of an operation, and its round trips.
#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    trips: usize,
    questions: usize,
}

/// Runs an operation that only reads.
fn find<O: Planner>(world: &World, operation: &O, hints: &dyn Hints) -> (O::Output, Spent) {
    let mut run = Run::new(operation, world.env());
    let mut spent = Spent::default();
    loop {
        match run.advance(hints) {
            Next::Read(reads) => {
                spent.trips += 1;
                spent.questions += reads.len();
                let found = block_on(world.store.read(&reads)).unwrap();
                run.learn(reads, found);
            }
            Next::Done(answer) => return (answer.unwrap(), spent),
            Next::Commit(..) | Next::Corrupt(..) => panic!("{operation:?} only reads"),
        }
    }
}

/// A page, and its complete cost.
fn page(world: &World, query: &ListQuery) -> (Listing, Spent) {
    let (mut walk, mut spent) =
        find(world, &ListStart { bucket: b"b".into(), query }, &world.memory);
    loop {
        match walk.advance().unwrap() {
            WalkStep::Page(page) => return (page, spent),
            WalkStep::Read(reads) => {
                spent.trips += 1;
                spent.questions += reads.len();
                walk.learn(block_on(world.store.read(&reads)).unwrap());
            }
        }
    }
}

fn everything(limit: usize) -> ListQuery {
    ListQuery { prefix: Vec::new(), delimiter: None, after: None, limit }
}

/// Lists all pages. Returns the keys, and the cost of each page.
fn all_pages(world: &World, limit: usize) -> (Vec<Vec<u8>>, Vec<Spent>) {
    let (mut query, mut keys, mut costs) = (everything(limit), Vec::new(), Vec::new());
    loop {
        let (listing, spent) = page(world, &query);
        costs.push(spent);
        keys.extend(listing.entries.iter().map(|entry| entry.key().to_vec()));
        if !listing.truncated {
            return (keys, costs);
        }
        assert!(!listing.entries.is_empty(), "the next page starts at the last entry");
        query.after = keys.last().cloned();
    }
}

fn deep(first: &str, directories: usize) -> Vec<u8> {
    format!("{first}{}x", "d/".repeat(directories)).into_bytes()
}

/// The longest key with the most directories.
fn deepest() -> Vec<u8> {
    "d/".repeat(DIRECTORIES_MAX).into_bytes()
}

fn remove(world: &World, keys: &[Vec<u8>]) -> Cost {
    let mut branches: Vec<Branch> = Vec::new();
    for key in keys {
        let path = path(key);
        let removals = vec![Removal { name: path.name, condition: None }];
        branches.push(Branch { directories: path.directories, removals });
    }
    branches.sort_by(|a, b| a.directories.cmp(&b.directories));
    let (removed, cost) = world.warm(&Remove { bucket: b"b".into(), branches: &branches });
    assert_eq!(existed(removed.unwrap()), vec![Ok(true); keys.len()]);
    world.audit();
    cost
}

/// A chain of directories with one name each, whose inode numbers are not consecutive.
fn grow(world: &World, directories: usize) -> Vec<u8> {
    let keys: Vec<Vec<u8>> = (1..=directories).map(|levels| deep("", levels)).collect();
    keys.iter().for_each(|key| put(world, key));
    for keys in keys[..directories - 1].chunks(50) {
        remove(world, keys);
    }
    keys[directories - 1].clone()
}

#[test]
fn directories_of_one_put_are_found_several_levels_at_a_time() {
    let world = World::new();
    let key = deepest();
    put(&world, &key);
    let (_, spent) = find(&world, &Lookup { path: &path(&key), version: None }, &NoHints);
    assert!(spent.trips <= 12 && spent.questions <= 3_000, "{spent:?}");
    let (listing, spent) = page(&world, &everything(1_000));
    assert_eq!((listing.entries.len(), listing.truncated), (1, false));
    assert!(spent.trips <= 14 && spent.questions <= 2 * DIRECTORIES_MAX, "{spent:?}");
}

#[test]
fn directories_created_one_by_one_are_found_one_by_one() {
    let world = World::new();
    let key = grow(&world, 60);
    let (_, spent) = find(&world, &Lookup { path: &path(&key), version: None }, &NoHints);
    // The bucket, each directory, and the name. Some numbers may be consecutive by chance.
    assert!((55..=62).contains(&spent.trips), "{spent:?}");
    let world = World::new();
    let key = grow(&world, 400);
    let (_, spent) = find(&world, &Lookup { path: &path(&key), version: None }, &NoHints);
    assert!(spent.trips <= 404, "{spent:?}");
    assert!(spent.questions <= 15_000, "{spent:?}: not the square of the depth");
    let (_, spent) = find(&world, &Lookup { path: &path(&key), version: None }, &world.memory);
    assert!(spent.trips <= 2, "{spent:?}");
    let (listing, spent) = page(&world, &everything(1_000));
    assert_eq!((listing.entries.len(), listing.truncated), (1, false));
    assert!(spent.trips <= 402 && spent.questions <= 500, "{spent:?}");
}

#[test]
fn put_into_an_uncached_deep_directory_is_refused_once() {
    let world = World::new();
    let key = grow(&world, 60);
    let fresh: Vec<Ino> = (0..60).map(|_| world.ino()).collect();
    let path = path(&key);
    let publish = Publish {
        path: &path,
        ino: world.ino(),
        fresh: &fresh,
        inode: &file(9),
        condition: &WriteCondition::None,
        assumptions: &[],
        writes: &[],
    };
    let (published, spent) = world.cold(&publish);
    published.unwrap();
    assert!(spent.commits <= 3 && spent.reads <= 62, "{spent:?}");
    world.audit();
}

/// Forty deep keys side by side: no page does the work for all of them.
#[test]
fn page_of_deep_keys_ends_early_and_the_next_continues() {
    let world = World::new();
    let keys: BTreeSet<Vec<u8>> = (0..40).map(|n| deep(&format!("{n:02}/"), 500)).collect();
    keys.iter().for_each(|key| put(&world, key));
    for limit in [1_000, 1, 3] {
        let (listed, costs) = all_pages(&world, limit);
        assert_eq!(listed, keys.iter().cloned().collect::<Vec<_>>(), "{limit} a page");
        assert!(costs.len() > 4, "{} pages of {limit}", costs.len());
        for spent in costs {
            // In addition, the walk goes down to the start of the page, and up again.
            let most = PAGE_RANGES_MAX + 6 * DIRECTORIES_MAX;
            assert!(spent.questions <= most && spent.trips <= 100, "{spent:?}, {limit} a page");
        }
    }
}

#[test]
fn deep_keys_are_listed_in_order_among_others() {
    let world = World::new();
    let mut keys: BTreeSet<Vec<u8>> = BTreeSet::new();
    for n in 0..30 {
        keys.insert(format!("{n:02}").into_bytes());
        keys.insert(deep(&format!("{n:02}/"), 20 * (n % 4)));
        keys.insert(deep(&format!("{n:02}/e"), 7));
        keys.insert(format!("{n:02}/d/d/d/y").into_bytes());
    }
    keys.iter().for_each(|key| put(&world, key));
    let keys: Vec<Vec<u8>> = keys.into_iter().collect();
    for limit in [1, 2, 7, 1_000] {
        assert_eq!(all_pages(&world, limit).0, keys, "{limit} a page");
    }
    // The delimiter occurs deep in the chain.
    let query = ListQuery { delimiter: Some(b"d/d/d/d/d/".to_vec()), ..everything(1_000) };
    let (listing, _) = page(&world, &query);
    let rolled = listing.entries.iter().filter(|entry| entry.key().ends_with(b"d/d/d/d/d/"));
    assert_eq!(rolled.count(), 52);
}

#[test]
fn one_plan_removes_the_deepest_key_with_its_directories() {
    let world = World::new();
    let key = deepest();
    put(&world, &key);
    let removals = vec![Removal { name: Vec::new(), condition: None }];
    let branches = [Branch { directories: path(&key).directories, removals }];
    let remove = Remove { bucket: b"b".into(), branches: &branches };
    let mut run = Run::new(&remove, world.env());
    let plan: Plan = loop {
        match run.advance(&world.memory) {
            Next::Read(reads) => {
                let found = block_on(world.store.read(&reads)).unwrap();
                run.learn(reads, found);
            }
            Next::Commit(plan, _) => break plan,
            next => panic!("{next:?}"),
        }
    };
    let most = DIRECTORY_ITEMS * DIRECTORIES_MAX + REMOVAL_ITEMS;
    assert!(plan.items() > most / 2 && plan.items() <= most + 8, "{} items", plan.items());
    assert_eq!(block_on(world.store.commit(&[plan])).unwrap(), [Verdict::Committed]);
    world.audit();
    assert_eq!(page(&world, &everything(10)).0.entries, []);
}

#[test]
fn one_plan_removes_names_of_one_chain_of_directories() {
    let world = World::new();
    let keys: Vec<Vec<u8>> = (1..=200).map(|levels| deep("", levels)).collect();
    keys.iter().for_each(|key| put(&world, key));
    let stays = format!("{}y", "d/".repeat(150)).into_bytes();
    put(&world, &stays);
    let spent = remove(&world, &keys[100..]);
    assert!(spent.reads <= 3 && spent.commits == 1, "{spent:?}: names are left above");
    assert_eq!(page(&world, &everything(1_000)).0.entries.len(), 101);
    let (_, spent) = find(&world, &Lookup { path: &path(&stays), version: None }, &NoHints);
    assert!(spent.trips <= 152, "{spent:?}");
    assert!(remove(&world, &keys[..100]).commits == 1);
    assert_eq!(page(&world, &everything(1_000)).0.entries.len(), 1);
}

//! The reference engine in the conformance suite, and a check that the suite lists all of its
//! cases.

use std::sync::Arc;

use store::{MemoryStore, MetaStore};

async fn fresh() -> (Arc<dyn MetaStore>, ()) {
    (Arc::new(MemoryStore::new()), ())
}

store::conformance!(futures::executor::block_on, fresh);

/// A case that is not in the list of `conformance!` would never run.
#[test]
fn every_case_is_listed() {
    let sources = [
        include_str!("../src/conformance/bounds.rs"),
        include_str!("../src/conformance/commits.rs"),
        include_str!("../src/conformance/feed.rs"),
        include_str!("../src/conformance/guards.rs"),
        include_str!("../src/conformance/limits.rs"),
        include_str!("../src/conformance/model.rs"),
        include_str!("../src/conformance/races.rs"),
        include_str!("../src/conformance/ranges.rs"),
        include_str!("../src/conformance/reads.rs"),
        include_str!("../src/conformance/snapshots.rs"),
        include_str!("../src/conformance/counters.rs"),
        include_str!("../src/conformance/walks.rs"),
    ];
    let mut written: Vec<&str> = sources
        .iter()
        .flat_map(|source| source.split("pub async fn ").skip(1))
        .filter(|rest| rest.contains("(store: &dyn MetaStore)"))
        .filter_map(|rest| rest.split_once("(store: &dyn MetaStore) {").map(|(name, _)| name))
        .filter(|name| !name.contains(char::is_whitespace) && !name.contains('('))
        .collect();
    let mut listed = CONFORMANCE_CASES.to_vec();
    written.sort_unstable();
    listed.sort_unstable();
    assert_eq!(written, listed);
}

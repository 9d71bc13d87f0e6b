//! What each crate may reach, directly or through others.

use std::collections::BTreeSet;

use anyhow::Result;

use crate::workspace::{Workspace, stdout};

/// Crates without a runtime, I/O or a clock.
pub(super) const PURE: [&str; 7] =
    ["record", "layout", "store", "namespace", "policy", "s3", "sigv4"];

/// Runtimes, transports, drivers, clocks and randomness: none of them may be below a pure crate.
const IMPURE: [&str; 17] = [
    "async-std",
    "aws-sdk-s3",
    "chrono",
    "foyer",
    "fuser",
    "getrandom",
    "hyper",
    "hyper-util",
    "mio",
    "object_store",
    "rand",
    "redis",
    "reqwest",
    "rustls",
    "smol",
    "sqlx",
    "tokio",
];

/// Crates for tests alone: nothing that is shipped may reach them.
const FOR_TESTS: [&str; 4] = ["databases", "faulty", "fuzz", "proxy"];

/// Those of them that tests of every crate may use. They may not reach any crate of ours.
const FOR_ALL_TESTS: [&str; 2] = ["databases", "proxy"];

/// The crates of ours that xtask may reach.
const FOR_XTASK: [&str; 3] = ["databases", "load", "sigv4"];

/// The names of all packages that a crate is built from, itself not among them.
///
/// Tests of a crate may use more: development dependencies do not count.
pub(super) fn reached(workspace: &Workspace, package: &str) -> Result<BTreeSet<String>> {
    let mut command = workspace.cargo();
    command
        .args(["tree", "--package", package, "--edges", "normal,build"])
        .args(["--prefix", "none", "--format", "{p}"]);
    let tree = stdout(command)?;
    let names = tree.lines().filter_map(|line| line.split_whitespace().next());
    Ok(names.filter(|name| *name != package).map(str::to_owned).collect())
}

/// The rules that a crate breaks by what it reaches; `members` are the workspace's own crates.
pub(super) fn violations(
    package: &str,
    reached: &BTreeSet<String>,
    members: &[&str],
) -> Vec<String> {
    let ours = |name: &&String| members.contains(&name.as_str());
    let is_engine = |name: &str| name.starts_with("store-");
    let mut found = Vec::new();
    if PURE.contains(&package) {
        let impure = reached.iter().filter(|name| IMPURE.contains(&name.as_str()));
        found.extend(impure.map(|name| format!("{package} is pure but reaches {name}")));
    }
    if is_engine(package) {
        let known = reached.iter().filter(ours).filter(|name| *name != "store");
        found.extend(known.map(|name| {
            format!("{package} is an engine and may know store only, but reaches {name}")
        }));
    }
    if package != "server" && !matches!(package, "it" | "benches") {
        let engines = reached.iter().filter(|name| is_engine(name) && ours(name));
        found
            .extend(engines.map(|name| format!("only server names engines, {package} has {name}")));
    }
    for (one, other) in [("gateway", "fuse"), ("fuse", "gateway")] {
        if package == one && reached.contains(other) {
            found.push(format!("{one} and {other} are peers, but {one} reaches {other}"));
        }
    }
    if package == "admin" {
        let above = ["gateway", "server"].into_iter().filter(|name| reached.contains(*name));
        found.extend(above.map(|name| format!("admin returns values, but reaches {name}")));
    }
    if package == "xtask" {
        let strange =
            reached.iter().filter(ours).filter(|name| !FOR_XTASK.contains(&name.as_str()));
        found.extend(strange.map(|name| format!("xtask reaches {name}")));
    } else if package != "it" {
        let tests = reached.iter().filter(|name| FOR_TESTS.contains(&name.as_str()));
        found.extend(tests.map(|name| format!("{name} is for tests, but {package} reaches it")));
    }
    if FOR_ALL_TESTS.contains(&package) {
        let known = reached.iter().filter(ours);
        found.extend(known.map(|name| format!("{package} serves all tests, but reaches {name}")));
    }
    if package == "sigv4" || package == "policy" {
        let known = reached.iter().filter(ours);
        found
            .extend(known.map(|name| format!("{package} is arithmetic alone, but reaches {name}")));
    }
    if package == "record" || package == "layout" {
        let low = ["record", "store"];
        let high = reached.iter().filter(ours).filter(|name| !low.contains(&name.as_str()));
        found.extend(high.map(|name| format!("{package} lies below {name} but reaches it")));
    }
    found
}

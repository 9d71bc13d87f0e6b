//! Rules for the dependencies of each crate, direct and indirect.
//!
//! For example, `namespace` is pure, so none of its dependencies may depend on `tokio`.

use std::collections::BTreeSet;

use anyhow::Result;

use crate::workspace::{Workspace, stdout};

/// Crates without a runtime, I/O or a clock.
pub(super) const PURE: [&str; 10] = [
    "keyring",
    "record",
    "layout",
    "store",
    "namespace",
    "policy",
    "problem",
    "publication",
    "s3",
    "sigv4",
];

/// Runtimes, transports, drivers, clocks and randomness. A pure crate must not depend on any of
/// them.
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

/// Crates for tests only. Shipped crates must not depend on them.
const FOR_TESTS: [&str; 5] = ["databases", "faulty", "fuzz", "ports", "proxy"];

/// Crates of [`FOR_TESTS`] that the tests of every crate may use. They must not depend on any other
/// crate of the workspace, because otherwise the tests of that crate could not use them.
const FOR_ALL_TESTS: [&str; 3] = ["databases", "ports", "proxy"];

/// Pairs of crates of which neither may depend on the other. S3 and files are two views of a
/// volume. A session and content know `publication`, the contract between them. The operations of a
/// volume and the background work on it meet in `maintained` only.
const PEERS: [(&str, &str); 3] =
    [("gateway", "fuse"), ("session", "content"), ("volume", "upkeep")];

/// The crates of the workspace on which xtask may depend.
const FOR_XTASK: [&str; 4] = ["databases", "load", "ports", "sigv4"];

/// Crates below all views, which every view may use.
pub(super) const BELOW_VIEWS: [&str; 3] = ["rules", "lifecycle", "identity"];

/// The views of a volume, and the crates above them. No crate of [`BELOW_VIEWS`] reaches them.
const VIEWS: [&str; 10] = [
    "gateway",
    "edge",
    "files",
    "fuse",
    "mountd",
    "admin",
    "adminapi",
    "madmin",
    "webconsole",
    "server",
];

/// Crates that must work without certain crates above or beside them, and the names of these.
const INDEPENDENT: [(&str, &[&str]); 2] = [
    ("edge", &["files", "fuse", "gateway", "identity", "s3", "server", "volume"]),
    ("mountd", &["admin", "edge", "gateway", "identity", "server"]),
];

/// Returns the names of all packages on which a crate depends, direct and indirect.
///
/// Development dependencies are left out, because the rules are for the shipped code.
pub(super) fn reached(workspace: &Workspace, package: &str) -> Result<BTreeSet<String>> {
    let mut command = workspace.cargo();
    command
        .args(["tree", "--package", package, "--edges", "normal,build"])
        .args(["--prefix", "none", "--format", "{p}"]);
    let tree = stdout(command)?;
    let names = tree.lines().filter_map(|line| line.split_whitespace().next());
    Ok(names.filter(|name| *name != package).map(str::to_owned).collect())
}

/// Returns the errors in the dependencies of a crate. `reached` are its dependencies, and `members`
/// are the crates of the workspace.
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
            format!("{package} is an engine and may reach store only, but reaches {name}")
        }));
    }
    if package != "server" && !matches!(package, "it" | "benches") {
        let engines = reached.iter().filter(|name| is_engine(name) && ours(name));
        found
            .extend(engines.map(|name| {
                format!("only server may reach engines, but {package} reaches {name}")
            }));
    }
    for (one, other) in PEERS.into_iter().flat_map(|(one, other)| [(one, other), (other, one)]) {
        if package == one && reached.contains(other) {
            found.push(format!("{one} and {other} are peers, but {one} reaches {other}"));
        }
    }
    if BELOW_VIEWS.contains(&package) {
        let above = VIEWS.into_iter().filter(|name| reached.contains(*name));
        found.extend(above.map(|name| format!("{package} is below all views, but reaches {name}")));
    }
    for (_, others) in INDEPENDENT.iter().filter(|(one, _)| *one == package) {
        let strange = others.iter().filter(|name| reached.contains(**name));
        found.extend(strange.map(|name| format!("{package} must work without {name}")));
    }
    if package == "admin" {
        let above = ["gateway", "server"].into_iter().filter(|name| reached.contains(*name));
        found.extend(above.map(|name| format!("admin returns values, but reaches {name}")));
    }
    if package == "xtask" {
        let strange =
            reached.iter().filter(ours).filter(|name| !FOR_XTASK.contains(&name.as_str()));
        found.extend(strange.map(|name| format!("xtask may not reach {name}")));
    } else if package != "it" && !FOR_ALL_TESTS.contains(&package) {
        let tests = reached.iter().filter(|name| FOR_TESTS.contains(&name.as_str()));
        found.extend(tests.map(|name| format!("{name} is for tests, but {package} reaches it")));
    }
    if FOR_ALL_TESTS.contains(&package) {
        let known =
            reached.iter().filter(ours).filter(|name| !FOR_ALL_TESTS.contains(&name.as_str()));
        found.extend(
            known.map(|name| {
                format!("{package} is for the tests of all crates, but reaches {name}")
            }),
        );
    }
    if package == "sigv4" || package == "policy" {
        let known = reached.iter().filter(ours);
        found.extend(known.map(|name| format!("{package} is arithmetic only, but reaches {name}")));
    }
    if package == "record" || package == "layout" {
        let low = ["record", "store"];
        let high = reached.iter().filter(ours).filter(|name| !low.contains(&name.as_str()));
        found.extend(
            high.map(|name| format!("{package} is below {name} in the layers, but reaches it")),
        );
    }
    found
}

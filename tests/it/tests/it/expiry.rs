//! Lifecycle rules of a volume that has no gateway any more: a mount follows them.

use std::path::Path;
use std::time::Duration;

use crate::mounted::{LoneMount, can_mount};
use crate::servers::{Blocks, Setup, wait_for};

/// Expires objects with the prefix `goes-` a day after their creation.
const RULES: &str = "<LifecycleConfiguration><Rule><ID>goes</ID><Status>Enabled</Status>\
    <Filter><Prefix>goes-</Prefix></Filter><Expiration><Days>1</Days></Expiration>\
    </Rule></LifecycleConfiguration>";

/// Days of one second.
const SHORT_DAYS: [&str; 2] = ["--lifecycle-day-seconds", "1"];

/// The time of a read-only mount with short days. An object is due after two seconds at most, and a
/// process looks for due passes four times a day.
const DAYS_PASSED: Duration = Duration::from_secs(4);

/// The time limit for the pass of a mount, in a debug build on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// Returns the value of a metric that a mount shows in its virtual file.
fn metric(folder: &Path, name: &str) -> Option<u64> {
    let metrics = std::fs::read_to_string(folder.join(".ashlar/stats")).expect("the metrics");
    let line = metrics.lines().find_map(|line| line.strip_prefix(name));
    line.map(|value| value.trim().parse().expect("a count"))
}

#[test]
fn a_mount_without_a_gateway_follows_rules_unless_it_is_read_only() {
    if !can_mount() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let setup = Setup::new(folder.path(), Blocks::Folder);
    // This gateway has days of 24 hours, so it expires nothing.
    let gateway = setup.start();
    gateway.client.put("/box", b"").expect(200);
    gateway.client.put("/box/goes-a", b"gone after a day").expect(200);
    gateway.client.put("/box/stays", b"kept").expect(200);
    gateway.client.put("/box?lifecycle", RULES.as_bytes()).expect(200);
    gateway.stop();
    let at = folder.path().join("mount");
    let (goes, stays) = (at.join("box/goes-a"), at.join("box/stays"));

    let read_only = LoneMount::start(&setup, &at, &[&SHORT_DAYS[..], &["--read-only"]].concat());
    std::thread::sleep(DAYS_PASSED);
    assert!(goes.exists(), "a read-only mount has removed an object");
    read_only.stop();

    let mount = LoneMount::start(&setup, &at, &SHORT_DAYS);
    assert!(wait_for(PATIENCE, || !goes.exists()), "the mount does not follow the rule");
    assert!(stays.exists(), "the rule is not about this object");
    let removed = "ashlar_lifecycle_removals_total{kind=\"object\"}";
    assert!(wait_for(PATIENCE, || metric(&at, removed) >= Some(1)), "the removal is not counted");
    // The next worker of the mount continues the passes, without a session of its own.
    std::fs::write(at.join("box/goes-b"), b"gone as well").expect("a file");
    let (status, said) = setup.run("mount", &["--replace", at.to_str().expect("letters")]);
    assert!(status.success(), "{said}");
    let goes = at.join("box/goes-b");
    assert!(wait_for(PATIENCE, || !goes.exists()), "the next worker does not follow the rule");
    mount.stop();
}

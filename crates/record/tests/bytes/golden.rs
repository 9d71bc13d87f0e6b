//! Every record and key, compared with its golden file. Set `GOLDEN_BLESS=1` to write the golden
//! files.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;

use record::key::{self, CounterKind, space};
use record::{BlockId, BucketConfigKind};
use store::Key;

use crate::samples::{self, BUCKET, INO, NONCE, Sample};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

#[track_caller]
fn check(name: &str, shown: &str) {
    let path = folder().join(name);
    if std::env::var_os("GOLDEN_BLESS").is_some() {
        std::fs::write(&path, shown).expect("the golden folder is writable");
    }
    let expected = std::fs::read_to_string(&path).expect("a golden file");
    assert_eq!(shown, expected, "{name} differs from its golden file");
}

/// Hexadecimal digits of 32 bytes in each line.
fn hex(bytes: &[u8]) -> String {
    let mut lines = String::new();
    for line in bytes.chunks(32) {
        lines.push_str("  ");
        line.iter().for_each(|byte| write!(lines, "{byte:02x}").expect("a string takes all"));
        lines.push('\n');
    }
    lines
}

/// The debug text with each array of bytes on one line.
fn folded(fields: &str) -> String {
    let mut lines = String::new();
    let mut within = false;
    for line in fields.lines() {
        let number = line.trim().strip_suffix(',').filter(|n| n.parse::<u8>().is_ok());
        let first = !within && number.is_some() && lines.trim_end().ends_with('[');
        match number {
            Some(number) if within || first => write!(lines, "{number} "),
            _ => write!(lines, "{}{line}", if lines.is_empty() { "" } else { "\n" }),
        }
        .expect("a string takes all");
        within = number.is_some() && (within || first);
    }
    lines
}

fn show(sample: &Sample) -> String {
    let (key, value) = (hex(sample.key.as_bytes()), hex(&sample.value));
    let fields = folded(&sample.fields);
    format!("{:?}\n{fields}\n\nkey\n{key}value\n{value}", sample.key)
}

fn keys() -> Vec<(&'static str, Key)> {
    let block = BlockId::new(NONCE, 0x0000_0102_0304_0506);
    let (shares, shares_end) = key::shares(block);
    let (dentries, dentries_end) = key::dentries(BUCKET);
    let (configs, configs_end) = key::bucket_configs(BUCKET);
    let (xattrs, xattrs_end) = key::xattrs(INO);
    let (uploads, uploads_end) = key::uploads(BUCKET);
    let (parts, parts_end) = key::parts(INO);
    let (versions, versions_end) = key::versions(BUCKET);
    let (versions_of, versions_of_end) = key::versions_of(BUCKET, b"a/b");
    vec![
        ("volume", key::volume()),
        ("lease", key::lease()),
        ("epoch", key::epoch()),
        ("inode", key::inode(INO)),
        ("map_page", key::map_page(INO, 7)),
        ("part_sums", key::part_sums(INO, 7)),
        ("xattr", key::xattr(INO, b"user.colour")),
        ("xattrs from", xattrs),
        ("xattrs to", xattrs_end),
        ("bucket", key::bucket(BUCKET)),
        ("bucket_config", key::bucket_config(BUCKET, BucketConfigKind::Tags)),
        ("bucket_configs from", configs),
        ("bucket_configs to", configs_end),
        ("dentry of a file", key::dentry(BUCKET, b"name")),
        ("dentry of a directory", key::dentry(BUCKET, b"name/")),
        ("dentry of a marker", key::dentry(BUCKET, b"")),
        ("dentries from", dentries),
        ("dentries to", dentries_end),
        ("version", key::version(BUCKET, b"a/b", samples::VERSION)),
        ("versions of a key from", versions_of),
        ("versions of a key to", versions_of_end),
        ("versions from", versions),
        ("versions to", versions_end),
        ("null version", key::null_version(BUCKET, b"a/b")),
        ("superseded", key::superseded(INO)),
        ("orphan", key::orphan(INO)),
        ("pending", key::pending(block)),
        ("share", key::share(block, INO)),
        ("shares from", shares),
        ("shares to", shares_end),
        ("upload", key::upload(BUCKET, b"a/b", [0x44; 16])),
        ("uploads from", uploads),
        ("uploads to", uploads_end),
        ("expiry", key::expiry(samples::NOW, INO)),
        ("part", key::part(INO, 2, 9)),
        ("parts from", parts),
        ("parts to", parts_end),
        ("staged", key::staged(NONCE, INO)),
        ("staged inline", key::staged_inline(INO)),
        ("hold", key::hold(INO, NONCE)),
        ("locks", key::locks(INO)),
        ("lock keeping", key::lock_keeping()),
        ("session", key::session(NONCE)),
        ("heartbeat", key::heartbeat(NONCE)),
        ("fenced", key::fenced(NONCE)),
        ("swept", key::swept(NONCE)),
        ("idempotency slot", key::idempotency_slot(NONCE, 258)),
        ("counter of entries", key::counter(BUCKET, CounterKind::Entries).0),
        ("counter of modified", key::counter(BUCKET, CounterKind::Modified).0),
        ("counter of objects", key::counter(BUCKET, CounterKind::Objects).0),
        ("counter of bytes", key::counter(BUCKET, CounterKind::Bytes).0),
        ("counter of directories", key::counter(BUCKET, CounterKind::Directories).0),
        ("counter of a pack", key::live(BlockId::pack(NONCE, 7)).0),
    ]
}

fn access_keys() -> Vec<(&'static str, Key)> {
    let (users, users_end) = key::partition(space::USER, 0);
    vec![
        ("account", key::account(record::AccountId(123_456_789_012))),
        ("user", key::user("AKID")),
        ("users from", users),
        ("users to", users_end),
        ("group", key::group("lab")),
        ("last use", key::last_use("AKID")),
        ("policy", key::policy("logs")),
        ("ring state", key::ring_state()),
        ("ring key", key::ring_key(record::RingNumber(258))),
        ("rewrap", key::rewrap()),
        ("job", key::job(1_800_000_000_000)),
    ]
}

#[test]
fn records_and_keys_equal_their_golden_files() {
    let show_key = |(name, key): (&str, Key)| format!("{name}: {key:?}\n{}", hex(key.as_bytes()));
    check("keys.txt", &keys().into_iter().chain(access_keys()).map(show_key).collect::<String>());
    let mut checked = BTreeSet::from(["keys.txt".to_owned()]);
    for sample in samples::all() {
        let name = format!("{}.txt", sample.name);
        check(&name, &show(&sample));
        assert!(checked.insert(name), "two samples have one name");
    }
    let there = std::fs::read_dir(folder()).expect("the golden folder");
    let there: BTreeSet<String> =
        there.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(there, checked, "a golden file without its record");
}

#[test]
fn every_space_has_a_key_and_its_own_letter() {
    let listed: BTreeSet<u8> = space::ALL.iter().map(|space| space.0).collect();
    assert_eq!(listed.len(), space::ALL.len(), "two spaces have the same letter");
    let mut used: BTreeSet<u8> =
        keys().iter().chain(&access_keys()).map(|(_, key)| key.space().0).collect();
    for counters in [space::COUNTER, space::LIVE] {
        assert!(used.remove(&counters.0) && !listed.contains(&counters.0));
    }
    assert_eq!(used, listed);
    // All spaces that reference blocks are spaces of records.
    assert!(space::REFERENCING_BLOCKS.iter().all(|space| listed.contains(&space.0)));
}

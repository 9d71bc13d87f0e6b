//! How long and how often the tests of many gateways go on: little for every run, much for the full
//! proof. All of it is said here.
//!
//! | variable | for every run | full proof | of what |
//! |---|---|---|---|
//! | `ASHLAR_TEST_SECONDS` | 5 | 120 | each load of which a history is recorded, and the counter |
//! | `ASHLAR_TEST_ROUNDS` | 100 | 10000 | races of creations, for each engine |
//! | `ASHLAR_TEST_KILLS` | 3 | 50 | kills of each database server, and of a process with a mount |
//! | `ASHLAR_TEST_OUTAGE_SECONDS` | 3 | 60 | each time that stores stop under a mount |
//! | `ASHLAR_TEST_LAPSES` | 1 | 5 | gateways stopped and killed until their sessions are ended |
//! | `ASHLAR_TEST_ROLLBACKS` | 2 | 50 | metadata stores put back to an earlier moment, for each engine |
//! | `ASHLAR_TEST_STEPS` | some hundreds, no servers | 100000 | acts on versions, for each engine |
//! | `ASHLAR_TEST_SEED` | another one each time | | loads that say their seed |
//! | `ASHLAR_TEST_ENGINES` | all installed | | `sqlite,postgres,mysql,redis` |
//!
//! `ASHLAR_BIN` names another build of the program, such as an optimized one.

use std::time::Duration;

fn number(name: &str, default: u64) -> u64 {
    asked(name).unwrap_or(default)
}

fn asked(name: &str) -> Option<u64> {
    let text = std::env::var_os(name)?;
    let number = text.to_str().and_then(|text| text.parse().ok());
    Some(number.unwrap_or_else(|| panic!("{name} is {}, which is no number", text.display())))
}

/// How long a load goes on of which a history is recorded.
pub(crate) fn load() -> Duration {
    Duration::from_secs(number("ASHLAR_TEST_SECONDS", 5))
}

/// How long stores stop under programs on a mount.
pub(crate) fn outage() -> Duration {
    Duration::from_secs(number("ASHLAR_TEST_OUTAGE_SECONDS", 3))
}

/// What decides what a load does, if not when.
pub(crate) fn seed() -> u64 {
    static SEED: std::sync::OnceLock<u64> = std::sync::OnceLock::new();
    let now = || std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |now| now.subsec_nanos());
    *SEED.get_or_init(|| number("ASHLAR_TEST_SEED", now().into()))
}

/// How many times the same key is raced for.
pub(crate) fn rounds() -> u64 {
    number("ASHLAR_TEST_ROUNDS", 100)
}

/// How many acts on versions follow each other, if that is said.
pub(crate) fn steps() -> Option<u64> {
    asked("ASHLAR_TEST_STEPS")
}

/// How often a database server is killed.
pub(crate) fn kills() -> u64 {
    number("ASHLAR_TEST_KILLS", 3)
}

/// How often gateways fall silent for so long that their sessions are ended.
pub(crate) fn lapses() -> u64 {
    number("ASHLAR_TEST_LAPSES", 1)
}

/// How often a metadata store is put back to an earlier moment.
pub(crate) fn rollbacks() -> u64 {
    number("ASHLAR_TEST_ROLLBACKS", 2)
}

/// Whether an engine of this name was asked for.
pub(crate) fn is_wanted(engine: &str) -> bool {
    let wanted = std::env::var_os("ASHLAR_TEST_ENGINES").unwrap_or_default();
    let wanted = wanted.to_string_lossy();
    let wanted: Vec<&str> = wanted.split(',').map(str::trim).filter(|n| !n.is_empty()).collect();
    for name in &wanted {
        let known = ["sqlite", "postgres", "mysql", "redis"].contains(name);
        assert!(known, "ASHLAR_TEST_ENGINES names {name:?}, which is no engine");
    }
    wanted.is_empty() || wanted.contains(&engine)
}

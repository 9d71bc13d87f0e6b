//! The amount of work of the tests of many gateways: little in a plain run, much in the full proof.
//! All of these amounts are in this file.
//!
//! | variable | plain | full | amount of |
//! |---|---|---|---|
//! | `ASHLAR_TEST_SECONDS` | 2 | 120 | seconds of each load whose history is recorded, and of the counter |
//! | `ASHLAR_TEST_ROUNDS` | 100 | 10000 | races of creations, on each engine |
//! | `ASHLAR_TEST_KILLS` | 3 | 50 | kills of a database server, a process with a mount, and a gateway |
//! | `ASHLAR_TEST_FAIL_OVERS` | 1 | 20 | failovers of a cluster of databases |
//! | `ASHLAR_TEST_RETIRE_KILLS` | 5 | 20 | kills of a command that retires a ring key |
//! | `ASHLAR_TEST_RING_KILLS` | 5 | 20 | kills of a command that replaces the master key, and of a rotation |
//! | `ASHLAR_TEST_OUTAGE_SECONDS` | 3 | 60 | seconds of each outage of the stores below a mount |
//! | `ASHLAR_TEST_STOP_SECONDS` | 5 | 40 | seconds of the longest stop of a session with leases |
//! | `ASHLAR_TEST_RESETS` | 12 | 60 | resets of connections between sessions |
//! | `ASHLAR_TEST_LAPSES` | 1 | 5 | gateways stopped and killed until their sessions are ended |
//! | `ASHLAR_TEST_ROLLBACKS` | 2 | 50 | restores of a metadata store to an earlier state, on each engine |
//! | `ASHLAR_TEST_STEPS` | 400 | 100000 | operations on versions, in memory, on `SQLite` and the drawn engine |
//! | `ASHLAR_TEST_VIEW_STEPS` | 400 | 20000 | operations of clients and programs in both views, on the same engines |
//!
//! `ASHLAR_TEST_SCALE=full` selects the column `full`; a variable of the table overrides its row.
//! Each load also has a least number of responses, so a slow machine does the same work and takes
//! longer. For example, `ASHLAR_TEST_ROUNDS=1000` runs 1,000 races of creations on each engine.
//!
//! | variable | default | meaning |
//! |---|---|---|
//! | `ASHLAR_TEST_SEED` | a new one for each run | the seed of loads that print their seed |
//! | `ASHLAR_TEST_ENGINES` | all installed | engines to test: `sqlite,postgres,mysql,redis,etcd` |
//! | `ASHLAR_TEST_EACH` | all of them | engines of tests that exist for each engine |
//! | `ASHLAR_TEST_DRAWN` | `sqlite` | the engine of tests that run on one engine in each run |
//!
//! `ASHLAR_BIN` names another build of the program, such as an optimized one.

use std::time::Duration;

/// Returns the value of a variable of the table above, or else its plain or full amount.
fn number(name: &str, plain: u64, full: u64) -> u64 {
    asked(name).unwrap_or(if is_full() { full } else { plain })
}

/// Returns true if the full proof was asked for.
fn is_full() -> bool {
    let scale = std::env::var_os("ASHLAR_TEST_SCALE").unwrap_or_else(|| "plain".into());
    let known = scale == "full" || scale == "plain";
    assert!(known, "ASHLAR_TEST_SCALE is {}, and may be plain or full", scale.display());
    scale == "full"
}

fn asked(name: &str) -> Option<u64> {
    let text = std::env::var_os(name)?;
    let number = text.to_str().and_then(|text| text.parse().ok());
    Some(number.unwrap_or_else(|| panic!("{name} is {}, which is no number", text.display())))
}

/// The least duration of a load whose history is recorded.
pub(crate) fn load() -> Duration {
    Duration::from_secs(number("ASHLAR_TEST_SECONDS", 2, 120))
}

/// The duration of an outage of the stores below programs on a mount.
pub(crate) fn outage() -> Duration {
    Duration::from_secs(number("ASHLAR_TEST_OUTAGE_SECONDS", 3, 60))
}

/// The seed of the choices of a load. It does not decide their times.
pub(crate) fn seed() -> u64 {
    static SEED: std::sync::OnceLock<u64> = std::sync::OnceLock::new();
    let now = || std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |now| now.subsec_nanos());
    *SEED.get_or_init(|| asked("ASHLAR_TEST_SEED").unwrap_or_else(|| now().into()))
}

/// Races for one key each.
pub(crate) fn rounds() -> u64 {
    number("ASHLAR_TEST_ROUNDS", 100, 10_000)
}

/// Operations on versions on an engine; a plain run executes `plain` of them.
pub(crate) fn steps(plain: u64) -> u64 {
    number("ASHLAR_TEST_STEPS", plain, 100_000)
}

/// Operations of clients and programs in both views on an engine; a plain run executes `plain` of
/// them.
pub(crate) fn view_steps(plain: u64) -> u64 {
    number("ASHLAR_TEST_VIEW_STEPS", plain, 20_000)
}

/// Kills of a database server, of a process with a mount, or of a gateway.
pub(crate) fn kills() -> u64 {
    number("ASHLAR_TEST_KILLS", 3, 50)
}

/// Failovers of a cluster of databases.
pub(crate) fn fail_overs() -> u64 {
    number("ASHLAR_TEST_FAIL_OVERS", 1, 20)
}

/// Kills of a command that retires a ring key.
pub(crate) fn retire_kills() -> u64 {
    number("ASHLAR_TEST_RETIRE_KILLS", 5, 20)
}

/// Kills of a command that replaces the master key, and of one that rotates the ring key.
pub(crate) fn ring_kills() -> u64 {
    number("ASHLAR_TEST_RING_KILLS", 5, 20)
}

/// The longest stop of a session that holds leases and has given some.
pub(crate) fn longest_stop() -> Duration {
    Duration::from_secs(number("ASHLAR_TEST_STOP_SECONDS", 5, 40))
}

/// Resets of connections between sessions.
pub(crate) fn resets() -> u64 {
    number("ASHLAR_TEST_RESETS", 12, 60)
}

/// Rounds in which gateways pause until their sessions are ended.
pub(crate) fn lapses() -> u64 {
    number("ASHLAR_TEST_LAPSES", 1, 5)
}

/// Restores of a metadata store to an earlier state.
pub(crate) fn rollbacks() -> u64 {
    number("ASHLAR_TEST_ROLLBACKS", 2, 50)
}

/// The name of the engine of tests that run on one engine in each run.
pub(crate) fn drawn() -> String {
    let drawn = std::env::var_os("ASHLAR_TEST_DRAWN").unwrap_or_else(|| "sqlite".into());
    drawn.to_string_lossy().into_owned()
}

/// Returns true if `ASHLAR_TEST_ENGINES` names this engine, or no engine.
pub(crate) fn is_wanted(engine: &str) -> bool {
    is_named("ASHLAR_TEST_ENGINES", engine)
}

/// Returns true if `ASHLAR_TEST_EACH` names this engine, or no engine.
pub(crate) fn is_taken(engine: &str) -> bool {
    is_named("ASHLAR_TEST_EACH", engine)
}

fn is_named(variable: &str, engine: &str) -> bool {
    let wanted = std::env::var_os(variable).unwrap_or_default();
    let wanted = wanted.to_string_lossy();
    let wanted: Vec<&str> = wanted.split(',').map(str::trim).filter(|n| !n.is_empty()).collect();
    for name in &wanted {
        let known = ["sqlite", "postgres", "mysql", "redis", "etcd"].contains(name);
        assert!(known, "{variable} names {name:?}, which is no engine");
    }
    wanted.is_empty() || wanted.contains(&engine)
}

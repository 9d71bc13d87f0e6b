//! Tests with several processes: programs that wait and are killed, servers that are killed and
//! replaced, mounts of another user. Needs root and `/dev/fuse`.
//!
//! This program starts itself again in other roles; the first argument selects the role.

#![expect(clippy::unwrap_used, reason = "the helpers of tests may fail as tests do")]

#[path = "../../examples/null/content.rs"]
mod content;
#[path = "../../examples/null/files.rs"]
mod files;
#[path = "../../examples/null/locks.rs"]
mod locks;
#[path = "../../examples/null/tree.rs"]
mod tree;

mod interrupts;
mod parts;
mod takeover;
mod unprivileged;

fn main() {
    let words: Vec<_> = std::env::args().skip(1).collect();
    if let Some(part) = words.first().and_then(|word| word.strip_prefix("--part-")) {
        return parts::play(part, &words[1..]);
    }
    let tests: [(&str, fn()); 6] = [
        ("a_program_that_waits_for_a_lock_dies_by_a_signal", interrupts::dies_by_a_signal),
        ("a_program_that_handles_a_signal_waits_on", interrupts::handles_it_and_waits_on),
        ("a_lock_goes_to_who_waits_when_its_holder_dies", interrupts::goes_to_who_waits),
        ("programs_go_on_when_their_server_is_killed_and_replaced", takeover::go_on),
        ("a_waiter_can_be_killed_after_its_server_was_replaced", takeover::can_be_killed),
        ("a_user_mounts_through_fusermount", unprivileged::mounts),
    ];
    let wanted = |name: &str| words.iter().all(|word| name.contains(word.as_str()));
    for (name, test) in tests.into_iter().filter(|(name, _)| wanted(name)) {
        test();
        println!("test {name} ... ok");
    }
}

use super::*;

#[test]
fn a_process_is_ending_when_it_was_killed_or_exits() {
    let status = |pending: &str, shared: &str| {
        format!("Name:\tcat\nSigPnd:\t{pending}\nShdPnd:\t{shared}\nSigBlk:\t0000000000000100\n")
    };
    assert!(is_killed(&status("0000000000000100", "0000000000000000")));
    assert!(is_killed(&status("0000000000000000", "0000000000000102")));
    assert!(!is_killed(&status("0000000000004000", "0000000000000002")));
    assert!(!is_killed(""));
    assert!(is_exiting("12 (a ) b) D 1 12 12 0 -1 4194308 0 0"));
    assert!(!is_exiting("12 (cat) S 1 12 12 0 -1 4194304 0 0"));
    assert!(!is_exiting(""));
    assert!(!is_ending(std::process::id()));
}

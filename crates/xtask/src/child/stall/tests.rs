use std::process::Command;

use super::*;

#[test]
fn descendants_are_listed_with_the_functions_in_which_they_sleep() {
    // The shell waits for its child, and does not replace itself by it.
    let mut shell =
        Command::new("sh").args(["-c", "sleep 60; true"]).spawn().expect("a shell starts");
    let sleeps = || describe(shell.id()).lines().any(|line| line.contains("sleep 60 :"));
    let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while !sleeps() && std::time::Instant::now() < end {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let text = describe(shell.id());
    for child in children().remove(&shell.id()).unwrap_or_default() {
        let pid = rustix::process::Pid::from_raw(child.cast_signed()).expect("an id");
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it runs");
    }
    shell.wait().expect("the shell ends");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert!(lines[0].starts_with(&format!("{} (child of {})", shell.id(), std::process::id())));
    assert!(lines[1].contains(&format!("(child of {}) S sleep 60 : 1×", shell.id())), "{text}");
}

#[test]
fn an_ended_process_is_left_out() {
    let mut program = Command::new("true").spawn().expect("a program starts");
    program.wait().expect("it ends");
    assert_eq!(describe(program.id()), "");
}

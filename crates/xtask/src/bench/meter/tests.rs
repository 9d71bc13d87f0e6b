use std::io::Read as _;
use std::process::{Command, Stdio};

use super::*;

#[test]
fn a_process_name_may_contain_spaces() {
    let stat = "42 (a (b) c) S 1 42 42 0 -1 4194560 100 0 0 0 30 12 7 1 20 0 4 0 100 1000 50";
    assert_eq!(cpu_ticks(stat), Some(42));
    assert_eq!(ended_ticks(stat), Some(8));
}

#[test]
fn peak_memory_and_cpu_time_of_this_process_are_read() {
    let pid = std::process::id();
    let (now, peak) = (memory(pid).expect("we run"), peak_memory(pid).expect("we run"));
    // The kernel counts pages for each processor and adds them up later, so two reads can differ by
    // some pages.
    assert!(now > 0.5 && peak + 1.0 >= now, "{now} MiB, {peak} MiB");
    cpu_time(pid).expect("we run");
}

#[test]
fn descendants_are_found_through_their_parents() {
    assert_eq!(parent("42 (a (b) c) S 7 42 42 0 -1"), Some(7));
    let parents = BTreeMap::from([(2, 1), (3, 2), (9, 3), (4, 8), (8, 0)]);
    assert_eq!(tree(&[2], &parents), BTreeSet::from([2, 3, 9]));
    assert_eq!(tree(&[9, 8], &parents), BTreeSet::from([4, 8, 9]));
}

#[test]
fn cpu_time_of_ended_children_is_included() {
    let busy = "(i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done); echo done; read -r line";
    let mut command = Command::new("sh");
    command.args(["-c", busy]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut shell = command.spawn().expect("a shell");
    let mut line = [0; 4];
    let mut output = shell.stdout.take().expect("it is piped");
    output.read_exact(&mut line).expect("its child has ended");
    let alone = cpu_time(shell.id()).expect("it waits");
    assert!(cpu_time_of_tree(&[shell.id()]) >= alone + Duration::from_millis(50));
    drop(shell.stdin.take());
    shell.wait().expect("it ends");
    assert_eq!(cpu_time_of_tree(&[shell.id()]), Duration::ZERO);
}

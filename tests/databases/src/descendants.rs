//! Lists all processes of a server, because its workers must end with it.

use rustix::process::Pid;

/// Returns all present descendants of a process. Process groups do not help: PostgreSQL gives each
/// worker its own session.
pub(crate) fn descendants(root: u32) -> Vec<Pid> {
    let entries = std::fs::read_dir("/proc").expect("processes can be listed");
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let parents: Vec<(u32, u32)> =
        pids.filter_map(|pid: u32| Some((pid, parent_of(pid)?))).collect();
    let mut found = vec![root];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        found.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    found.into_iter().skip(1).filter_map(pid_of).collect()
}

/// Returns the id of a process as the type of system calls.
pub(crate) fn pid_of(pid: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(pid).ok()?)
}

/// Returns true if a process exists and is neither stopped nor ended.
pub(crate) fn is_running(process: Pid) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/stat", process.as_raw_pid()));
    let status = status.unwrap_or_default();
    let state = status.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
    !matches!(state, None | Some('T' | 'Z' | 'X'))
}

/// Returns the parent of a process: the fourth field of its status, the second after its name.
fn parent_of(pid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = status.rsplit_once(')')?;
    rest.split_whitespace().nth(1)?.parse().ok()
}

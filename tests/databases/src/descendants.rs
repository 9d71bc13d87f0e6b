//! All processes of a server: it has workers, which must end with it.

use rustix::process::Pid;

/// All processes below one, as they are at this moment. Groups do not tell: PostgreSQL gives
/// each worker a session of its own.
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
    let below = found.into_iter().skip(1);
    below.filter_map(|pid| Pid::from_raw(i32::try_from(pid).ok()?)).collect()
}

/// The parent of a process: the fourth field of its status, the second behind its name.
fn parent_of(pid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = status.rsplit_once(')')?;
    rest.split_whitespace().nth(1)?.parse().ok()
}

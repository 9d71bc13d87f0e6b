//! A description of processes that do not come to an end.
//!
//! For example, a test waits for a file on a mount whose process hangs. The states of the processes
//! and the kernel functions in which their threads sleep show the process that blocks the others.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// The most processes that a description lists.
const PROCESSES_MAX: usize = 60;

/// Describes the process `root` and its descendants: one line for each process, with its state, its
/// command line, and the kernel functions in which its threads sleep.
///
/// A process that has ended meanwhile is left out.
pub(super) fn describe(root: u32) -> String {
    let children = children();
    let mut open = vec![root];
    let mut text = String::new();
    let mut listed = 0;
    while let Some(pid) = open.pop() {
        open.extend(children.get(&pid).into_iter().flatten());
        if listed == PROCESSES_MAX {
            text.push_str("… and more processes\n");
            break;
        }
        if let Some(line) = line(pid) {
            text.push_str(&line);
            listed += 1;
        }
    }
    text
}

/// The running processes by their parents.
fn children() -> BTreeMap<u32, Vec<u32>> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for pid in numbers(Path::new("/proc")) {
        if let Some((_, parent)) = state(pid) {
            children.entry(parent).or_default().push(pid);
        }
    }
    children
}

/// The names in a folder that are numbers.
fn numbers(folder: &Path) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// The state and the parent of a process.
fn state(pid: u32) -> Option<(String, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program is in parentheses, and may contain some itself.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    Some((fields.next()?.to_owned(), fields.next()?.parse().ok()?))
}

fn line(pid: u32) -> Option<String> {
    let (state, parent) = state(pid)?;
    let command = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let command = String::from_utf8_lossy(&command).replace('\0', " ");
    let command: String = command.chars().take(200).collect();
    let mut sleeping: BTreeMap<String, u32> = BTreeMap::new();
    for thread in numbers(Path::new(&format!("/proc/{pid}/task"))) {
        let function = fs::read_to_string(format!("/proc/{pid}/task/{thread}/wchan"));
        *sleeping.entry(function.unwrap_or_default()).or_default() += 1;
    }
    let mut line = format!("{pid} (child of {parent}) {state} {command}:");
    for (function, threads) in sleeping {
        let function = if function.is_empty() || function == "0" { "running" } else { &function };
        // Writing to a string cannot fail.
        let _ = write!(line, " {threads}×{function}");
    }
    line.push('\n');
    Some(line)
}

#[cfg(test)]
mod tests;

//! How much memory this process may use.

use sysinfo::{MemoryRefreshKind, RefreshKind, System};

use super::Size;

/// By default the cache takes one part in this many of that memory.
const CACHE_PARTS: u64 = 16;

/// The least that the cache takes by default.
const CACHE_MIN: Size = Size::mebibytes(128);

/// The most that the cache takes by default.
const CACHE_MAX: Size = Size::mebibytes(1024);

/// The default of `cache_memory`.
pub(super) fn cache_default() -> Size {
    cache_of(available())
}

/// Bytes of memory of the machine, or the limit of the container; 0 if the system reports neither.
fn available() -> u64 {
    let memory = RefreshKind::nothing().with_memory(MemoryRefreshKind::nothing().with_ram());
    let Ok(system) = System::new_with_specifics(memory) else { return 0 };
    let all = system.total_memory();
    system.cgroup_limits().map_or(all, |limits| limits.total_memory.min(all))
}

/// Rounds to whole MiB, for people.
fn cache_of(available: u64) -> Size {
    let share = available / CACHE_PARTS;
    Size::mebibytes(share >> 20).clamp(CACHE_MIN, CACHE_MAX)
}

#[cfg(test)]
mod tests;

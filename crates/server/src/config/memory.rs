//! The default size of the block cache, from the memory of the machine or container.

use sysinfo::{MemoryRefreshKind, RefreshKind, System};

use super::Size;

/// The divisor of the memory: by default the cache takes 1/16 of it.
const CACHE_PARTS: u64 = 16;

/// The minimum of the default size of the block cache.
const CACHE_MIN: Size = Size::mebibytes(128);

/// The maximum of the default size of the block cache.
const CACHE_MAX: Size = Size::mebibytes(1024);

/// Returns the default of the setting `cache_memory`, the size of the block cache in memory.
pub(super) fn cache_default() -> Size {
    cache_of(available())
}

/// Returns the memory of the machine in bytes, or the limit of the container if that is lower.
/// Returns 0 if the system reports neither.
fn available() -> u64 {
    let memory = RefreshKind::nothing().with_memory(MemoryRefreshKind::nothing().with_ram());
    let Ok(system) = System::new_with_specifics(memory) else { return 0 };
    let all = system.total_memory();
    // The limit of a container may be above the memory of the machine.
    system.cgroup_limits().map_or(all, |limits| limits.total_memory.min(all))
}

/// Returns the size of the cache for this much memory, in whole MiB so that it is easy to read.
fn cache_of(available: u64) -> Size {
    let share = available / CACHE_PARTS;
    Size::mebibytes(share >> 20).clamp(CACHE_MIN, CACHE_MAX)
}

#[cfg(test)]
mod tests;

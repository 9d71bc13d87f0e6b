//! How much memory the machine lets this process have.

use sysinfo::{MemoryRefreshKind, RefreshKind, System};

use super::Size;

/// The share of that which the cache takes unless told otherwise: one part in so many.
const CACHE_PARTS: u64 = 16;

/// The least that the cache takes unless told otherwise.
const CACHE_MIN: Size = Size::mebibytes(128);

/// The most.
const CACHE_MAX: Size = Size::mebibytes(1024);

/// What `cache_memory` is where nobody says.
pub(super) fn cache_default() -> Size {
    cache_of(available())
}

/// Bytes of memory that the machine has, or that the container may take; 0 if the system does not
/// say.
fn available() -> u64 {
    let memory = RefreshKind::nothing().with_memory(MemoryRefreshKind::nothing().with_ram());
    let Ok(system) = System::new_with_specifics(memory) else { return 0 };
    let all = system.total_memory();
    system.cgroup_limits().map_or(all, |limits| limits.total_memory.min(all))
}

/// Whole MiB, so that it reads well.
fn cache_of(available: u64) -> Size {
    let share = available / CACHE_PARTS;
    Size::mebibytes(share >> 20).clamp(CACHE_MIN, CACHE_MAX)
}

#[cfg(test)]
mod tests;

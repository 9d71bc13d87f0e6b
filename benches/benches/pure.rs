//! `cargo bench -p benches`: times each case of the pure code, and prints one line for each.

use std::time::{Duration, Instant};

/// The duration of each case.
const TIME: Duration = Duration::from_secs(1);

fn main() {
    for mut case in benches::cases() {
        // The first run is not timed, because it fills caches.
        (case.work)();
        let (began, mut units) = (Instant::now(), 0_u32);
        while began.elapsed() < TIME {
            (case.work)();
            units += 1;
        }
        let each = began.elapsed() / units.max(1);
        let rate = if case.bytes == 0 {
            String::new()
        } else {
            let bytes = f64::from(u32::try_from(case.bytes).unwrap_or(u32::MAX));
            format!("{:>9.0} MB/s", bytes / each.as_secs_f64() / 1e6)
        };
        println!("{:<44} {:>12.1?} {rate}", case.name, each);
    }
}

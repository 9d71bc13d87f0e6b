use std::pin::pin;

use futures::FutureExt;

use super::*;

const MIB: u64 = 1 << 20;

/// Returns true if an upload that holds `held` bytes is asked to release them while its client
/// sends `bytes_per_second`.
async fn is_asked(held: u64, bytes_per_second: u64) -> bool {
    let pressure = Pressure::default();
    for quarters in 0..8 {
        pressure.note(held + bytes_per_second * quarters / 4, held);
        pressure.release_memory();
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    pin!(pressure.wanted()).now_or_never().is_some()
}

#[tokio::test(start_paused = true)]
async fn upload_of_a_stopped_or_slow_client_is_asked() {
    assert!(is_asked(12 * MIB, 0).await);
    assert!(is_asked(12 * MIB, 2 << 10).await);
    assert!(is_asked(64 << 10, 2 << 10).await);
}

#[tokio::test(start_paused = true)]
async fn upload_of_a_fast_client_is_not_asked() {
    assert!(!is_asked(12 * MIB, 5 * MIB).await);
    assert!(!is_asked(MIB, 256 << 10).await);
}

#[tokio::test(start_paused = true)]
async fn upload_that_holds_nothing_is_not_asked() {
    assert!(!is_asked(0, 0).await);
}

#[tokio::test(start_paused = true)]
async fn rate_is_measured_for_a_second_before_an_upload_is_asked() {
    let pressure = Pressure::default();
    pressure.note(12 * MIB, 12 * MIB);
    pressure.release_memory();
    tokio::time::sleep(PACE_MEASURED / 2).await;
    pressure.release_memory();
    assert!(pin!(pressure.wanted()).now_or_never().is_none());
}

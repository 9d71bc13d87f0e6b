//! Notices to the service manager, by the protocol of systemd: ready, reloading, stopping, alive.
//!
//! Without the variable `NOTIFY_SOCKET` nothing is sent. A notice that cannot be sent is only
//! logged, because the gateway can serve nevertheless. For example, a unit with `Type=notify`
//! counts as started after [`ready`], so units that depend on it find a gateway that serves.

use std::convert::Infallible;
use std::time::Duration;

use sd_notify::NotifyState;

/// The notices of life in each period of the service manager's watchdog.
const NOTICES_EACH_PERIOD: u32 = 3;

/// Reports that the process serves: after its start, and after a reload.
pub(crate) fn ready() {
    send(&[NotifyState::Ready]);
}

/// Reports that the process has begun to read its files again. [`ready`] ends the reload.
pub(crate) fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => send(&[NotifyState::Reloading, now]),
        Err(error) => tracing::debug!(%error, "no monotonic clock for the service manager"),
    }
}

/// Reports that the process ends.
pub(crate) fn stopping() {
    send(&[NotifyState::Stopping]);
}

/// Runs `work`, and meanwhile tells the watchdog of the service manager that this process runs. A
/// runtime that makes no progress sends nothing, so the service manager starts another process.
pub(crate) async fn watched<T>(work: impl Future<Output = T>) -> T {
    tokio::select! {
        done = work => done,
        never = notices_of_life() => match never {},
    }
}

/// Sends notices of life for ever, if the service manager has a watchdog for this process.
async fn notices_of_life() -> Infallible {
    let Some(period) = sd_notify::watchdog_enabled().filter(|period| !period.is_zero()) else {
        return std::future::pending().await;
    };
    let mut ticks = tokio::time::interval(pause(period));
    loop {
        ticks.tick().await;
        send(&[NotifyState::Watchdog]);
    }
}

/// Returns the pause between two notices of life, at least a millisecond.
fn pause(period: Duration) -> Duration {
    (period / NOTICES_EACH_PERIOD).max(Duration::from_millis(1))
}

fn send(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "cannot notify the service manager");
    }
}

//! The load on S3 endpoints, and its end at Ctrl-C.
//!
//! For example, the loads on MinIO and on the gateway have the same seed, so both sides do the same
//! work.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use load::{Gauge, Runner};

use super::measurement::BUCKET;
use crate::child::Stop;
use crate::servers::Server;

/// The prefix of all keys.
pub(super) const PREFIX: &str = "bench/";

/// The seed of contents and of the order of requests. It is fixed, so every run does the same work.
pub(super) const SEED: u64 = 0x00A5_41A2;

/// The pause between two checks whether the user has ended the task.
const STOP_POLL: Duration = Duration::from_millis(100);

/// Creates the bucket of one side of the comparison, MinIO or the gateway, and returns the load
/// generator for it.
pub(super) fn runner(server: &Server) -> Result<Runner> {
    let runner = Runner::new(&server.target(BUCKET), PREFIX, SEED, 1)?;
    runner.make_bucket().with_context(|| format!("cannot use {}", server.endpoint))?;
    Ok(runner)
}

/// Stops the load if the user ends the task. The thread ends when the load has been dropped.
pub(super) fn stop_with(stop: &Stop, gauge: &Arc<Gauge>) -> Result<()> {
    let (stop, gauge) = (stop.clone(), Arc::downgrade(gauge));
    std::thread::Builder::new().name("stop".to_owned()).spawn(move || {
        // A weak reference, so that this thread does not keep the load alive.
        while let Some(gauge) = gauge.upgrade() {
            if stop.is_set() {
                gauge.stop();
            }
            drop(gauge);
            std::thread::sleep(STOP_POLL);
        }
    })?;
    Ok(())
}

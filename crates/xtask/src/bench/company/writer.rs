//! A peer that writes all the time: a load of PUTs with a limited rate, in a bucket of its own.
//!
//! The rate is limited because a writer without a limit takes the processors of this machine, and
//! the measured process would be slow for that reason alone. For example, 50 PUTs of 4 KiB take
//! about 1 % of a processor.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};
use load::{Gauge, Runner, Trouble, Verb, Workload};

use super::super::loads::{PREFIX, SEED};
use super::figure::number;
use crate::servers::Server;

/// The bucket of the writer, which no other load uses.
const ELSEWHERE: &str = "elsewhere";

/// The number of clients.
pub(super) const CLIENTS: usize = 8;

/// The most PUTs per second of all clients together.
pub(super) const RATE: u32 = 50;

/// The size of each object in bytes.
const BYTES: u64 = 4 << 10;

/// The longest time for which a writer runs. It is stopped before.
const LONGEST: Duration = Duration::from_mins(10);

/// The load on a peer. It runs in a thread between [`Writer::start`] and [`Writer::stop`].
pub(super) struct Writer {
    /// `None` while the writer runs.
    runner: Option<Runner>,
    running: Option<Running>,
}

struct Running {
    thread: JoinHandle<(Runner, Result<(), Trouble>)>,
    gauge: Arc<Gauge>,
    since: Instant,
}

impl Writer {
    /// Creates the bucket at the peer.
    pub(super) fn at(peer: &Server) -> Result<Self> {
        let runner = Runner::new(&peer.target(ELSEWHERE), PREFIX, SEED, 1)?;
        runner.make_bucket().with_context(|| format!("cannot use {}", peer.endpoint))?;
        Ok(Self { runner: Some(runner), running: None })
    }

    /// Starts to write.
    pub(super) fn start(&mut self) -> Result<()> {
        let mut runner = self.runner.take().context("the writer runs already")?;
        let gauge = Arc::new(Gauge::default());
        let seen = Arc::clone(&gauge);
        let put = Workload::new(Verb::Put, BYTES, CLIENTS, LONGEST).at_most(RATE);
        let thread = std::thread::Builder::new().name("writer".to_owned()).spawn(move || {
            let ended = runner.round(&put, &seen).map(|_| ());
            (runner, ended)
        })?;
        self.running = Some(Running { thread, gauge, since: Instant::now() });
        Ok(())
    }

    /// Stops writing, and returns the number of PUTs per second. Fails if a PUT failed, or if there
    /// was none.
    pub(super) fn stop(&mut self) -> Result<f64> {
        let running = self.running.take().context("the writer does not run")?;
        running.gauge.stop();
        let took = running.since.elapsed();
        let (runner, ended) = running.thread.join().map_err(|_| anyhow!("the writer panicked"))?;
        self.runner = Some(runner);
        match ended {
            Ok(()) | Err(Trouble::Stopped) => {}
            Err(trouble) => return Err(trouble).context("the peer cannot write"),
        }
        let (written, _, errors) = running.gauge.seen();
        if errors > 0 || written == 0 {
            bail!("the peer wrote {written} objects, and {errors} of its PUTs failed");
        }
        Ok(number(written) / took.as_secs_f64())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // The thread ends by itself after its requests in flight.
        if let Some(running) = &self.running {
            running.gauge.stop();
        }
    }
}

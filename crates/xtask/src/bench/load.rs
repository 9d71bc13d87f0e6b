//! The load: clients on threads, each with one connection, presigned URLs and nothing else.
//!
//! It is light on purpose, because it shares the machine with the servers. Bodies are not hashed
//! by the client: both sides get `UNSIGNED-PAYLOAD`, so neither verifies a SHA-256.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rusty_s3::{Bucket, Credentials, S3Action as _, UrlStyle};

use crate::child::Stop;
use crate::servers::{ACCESS_KEY, SECRET_KEY};

/// How long a presigned URL is good for; longer than any round.
const URL_LIFE: Duration = Duration::from_hours(1);

/// What the clients do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    /// Write new objects.
    Put,
    /// Read the objects that [`Target::fill`] wrote.
    Get,
}

/// A bucket under load.
#[derive(Debug)]
pub(super) struct Target {
    bucket: Bucket,
    credentials: Credentials,
    /// Tells the keys of one round from those of the next.
    rounds: AtomicU32,
}

/// What one round gave.
#[derive(Clone, Debug)]
pub(super) struct Round {
    /// Requests answered.
    pub(super) requests: usize,
    /// How long the round took.
    pub(super) took: Duration,
    /// The time of every request, sorted.
    pub(super) latencies: Vec<Duration>,
}

impl Round {
    /// Requests per second.
    #[expect(clippy::cast_precision_loss, reason = "a round has far fewer than 2^52 requests")]
    pub(super) fn rate(&self) -> f64 {
        self.requests as f64 / self.took.as_secs_f64()
    }

    /// The latency that `percent` of the requests stay below.
    pub(super) fn percentile(&self, percent: usize) -> Duration {
        let index = self.latencies.len() * percent / 100;
        self.latencies.get(index).or(self.latencies.last()).copied().unwrap_or_default()
    }
}

impl Target {
    /// A bucket that exists, at an http endpoint.
    pub(super) fn new(endpoint: &str, bucket: &str) -> Result<Self> {
        let endpoint = endpoint.parse().context("an endpoint is a URL")?;
        let bucket = Bucket::new(endpoint, UrlStyle::Path, bucket.to_owned(), "us-east-1")
            .context("a bucket has a name and a host")?;
        let credentials = Credentials::new(ACCESS_KEY, SECRET_KEY);
        Ok(Self { bucket, credentials, rounds: AtomicU32::new(0) })
    }

    /// Writes the objects that are read later.
    pub(super) fn fill(&self, body: &[u8], count: usize) -> Result<()> {
        let agent = agent();
        (0..count).try_for_each(|number| self.put(&agent, &read_key(body, number), body))
    }

    /// Lets `clients` work for `time`, and returns what they did.
    pub(super) fn round(
        &self,
        verb: Verb,
        body: &[u8],
        clients: usize,
        objects: usize,
        time: Duration,
        stop: &Stop,
    ) -> Result<Round> {
        let round = self.rounds.fetch_add(1, Ordering::Relaxed);
        let begin = Instant::now();
        let client = |id: usize| -> Result<Vec<Duration>> {
            let agent = agent();
            let mut latencies = Vec::new();
            while begin.elapsed() < time && !stop.is_set() {
                let number = latencies.len();
                let since = Instant::now();
                match verb {
                    Verb::Put => {
                        let key = format!("w/{}/{round}/{id}/{number}", body.len());
                        self.put(&agent, &key, body)?;
                    }
                    // Steps that share no factor with the count visit all objects.
                    Verb::Get => {
                        let number = (id * 31 + number * 7) % objects;
                        self.get(&agent, &read_key(body, number), body.len())?;
                    }
                }
                latencies.push(since.elapsed());
            }
            Ok(latencies)
        };
        let mut latencies = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..clients).map(|id| scope.spawn(move || client(id))).collect();
            let mut all = Vec::new();
            for thread in threads {
                all.extend(thread.join().expect("a client does not panic")?);
            }
            anyhow::Ok(all)
        })?;
        stop.check()?;
        latencies.sort_unstable();
        Ok(Round { requests: latencies.len(), took: begin.elapsed(), latencies })
    }

    fn put(&self, agent: &ureq::Agent, key: &str, body: &[u8]) -> Result<()> {
        let url = self.bucket.put_object(Some(&self.credentials), key).sign(URL_LIFE);
        let answer = agent.put(url.as_str()).send(body);
        answer.with_context(|| format!("PUT {key}"))?;
        Ok(())
    }

    fn get(&self, agent: &ureq::Agent, key: &str, size: usize) -> Result<()> {
        let url = self.bucket.get_object(Some(&self.credentials), key).sign(URL_LIFE);
        let mut answer = agent.get(url.as_str()).call().with_context(|| format!("GET {key}"))?;
        let read = std::io::copy(&mut answer.body_mut().as_reader(), &mut std::io::sink())?;
        if read != u64::try_from(size)? {
            bail!("GET {key} gave {read} bytes instead of {size}");
        }
        Ok(())
    }
}

fn read_key(body: &[u8], number: usize) -> String {
    format!("r/{}/{number}", body.len())
}

/// One connection, kept open.
fn agent() -> ureq::Agent {
    ureq::Agent::config_builder().timeout_global(Some(Duration::from_secs(30))).build().new_agent()
}

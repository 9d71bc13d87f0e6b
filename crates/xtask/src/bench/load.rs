//! The load: clients on threads, each with one connection, presigned URLs and nothing else.
//!
//! It is light on purpose, because it shares the machine with the servers. Bodies are not hashed
//! by the client: both sides get `UNSIGNED-PAYLOAD`, so neither verifies a SHA-256.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rusty_s3::{Bucket, Credentials, S3Action as _, UrlStyle};

use crate::child::Stop;
use crate::servers::{ACCESS_KEY, SECRET_KEY};

/// How long a presigned URL is good for; longer than any round.
const URL_LIFE: Duration = Duration::from_hours(1);

/// Objects that [`Target::fill`] writes; at 1 MiB they fit in any cache, as "warm" means.
const READ_OBJECTS: usize = 128;

/// Keys in the page that a LIST asks for, of as many objects as were filled in.
pub(super) const PAGE_KEYS: usize = 100;

/// What the clients do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    /// Write new objects.
    Put,
    /// Read the objects that [`Target::fill`] wrote.
    Get,
    /// Ask for their headers.
    Head,
    /// Ask for the first page of them, as the children of one prefix.
    List,
    /// Delete what one PUT round wrote, each object once; the round ends when they are gone.
    Delete,
}

impl Verb {
    /// As in a request, eight letters at most.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Put => "PUT",
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::List => "LIST",
            Self::Delete => "DELETE",
        }
    }
}

/// What every round of a workload does.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load<'a> {
    pub(super) verb: Verb,
    /// The content of all objects.
    pub(super) body: &'a [u8],
    pub(super) clients: usize,
    /// How long a round lasts.
    pub(super) time: Duration,
}

/// A bucket under load.
#[derive(Debug)]
pub(super) struct Target {
    bucket: Bucket,
    credentials: Credentials,
    /// Tells the keys of one round from those of the next.
    rounds: AtomicU32,
    /// The keys that PUT rounds wrote and no DELETE round has taken, a list for each round.
    written: Mutex<Vec<Vec<String>>>,
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
        let (rounds, written) = (AtomicU32::new(0), Mutex::new(Vec::new()));
        Ok(Self { bucket, credentials, rounds, written })
    }

    /// Writes the objects that are read later.
    pub(super) fn fill(&self, body: &[u8]) -> Result<()> {
        let agent = agent();
        (0..READ_OBJECTS).try_for_each(|number| self.put(&agent, &read_key(body, number), body))
    }

    /// Lets the clients work, and returns what they did.
    ///
    /// A DELETE round needs a PUT round before it, of the same target.
    pub(super) fn round(&self, load: Load<'_>, stop: &Stop) -> Result<Round> {
        let round = self.rounds.fetch_add(1, Ordering::Relaxed);
        let doomed = match load.verb {
            Verb::Delete => self.written().pop().context("nothing was written to be deleted")?,
            _ => Vec::new(),
        };
        let next = AtomicUsize::new(0);
        let begin = Instant::now();
        let client = |id: usize| -> Result<(Vec<Duration>, Vec<String>)> {
            let agent = agent();
            let (mut latencies, mut written) = (Vec::new(), Vec::new());
            while begin.elapsed() < load.time && !stop.is_set() {
                let number = latencies.len();
                let key = match load.verb {
                    Verb::Put => format!("w/{}/{round}/{id}/{number}", load.body.len()),
                    Verb::Delete => match doomed.get(next.fetch_add(1, Ordering::Relaxed)) {
                        Some(key) => key.clone(),
                        None => break,
                    },
                    // Steps that share no factor with the count visit all objects.
                    _ => read_key(load.body, (id * 31 + number * 7) % READ_OBJECTS),
                };
                let since = Instant::now();
                self.ask(&agent, load, &key)?;
                latencies.push(since.elapsed());
                if load.verb == Verb::Put {
                    written.push(key);
                }
            }
            Ok((latencies, written))
        };
        let (mut latencies, mut written) = (Vec::new(), Vec::new());
        std::thread::scope(|scope| {
            let client = &client;
            let threads: Vec<_> =
                (0..load.clients).map(|id| scope.spawn(move || client(id))).collect();
            for thread in threads {
                let (times, keys) = thread.join().expect("a client does not panic")?;
                latencies.extend(times);
                written.extend(keys);
            }
            anyhow::Ok(())
        })?;
        let took = begin.elapsed();
        stop.check()?;
        if load.verb == Verb::Put {
            self.written().push(written);
        }
        latencies.sort_unstable();
        Ok(Round { requests: latencies.len(), took, latencies })
    }

    fn written(&self) -> MutexGuard<'_, Vec<Vec<String>>> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask(&self, agent: &ureq::Agent, load: Load<'_>, key: &str) -> Result<()> {
        let size = load.body.len();
        match load.verb {
            Verb::Put => self.put(agent, key, load.body),
            Verb::Get => self.get(agent, key, size),
            Verb::Head => self.head(agent, key, size),
            Verb::List => self.list(agent, &read_prefix(load.body)),
            Verb::Delete => self.delete(agent, key),
        }
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

    fn head(&self, agent: &ureq::Agent, key: &str, size: usize) -> Result<()> {
        let url = self.bucket.head_object(Some(&self.credentials), key).sign(URL_LIFE);
        let answer = agent.head(url.as_str()).call().with_context(|| format!("HEAD {key}"))?;
        let length = answer.headers().get("content-length").and_then(|it| it.to_str().ok());
        if length != Some(size.to_string().as_str()) {
            bail!("HEAD {key} tells of {length:?} bytes instead of {size}");
        }
        Ok(())
    }

    fn list(&self, agent: &ureq::Agent, prefix: &str) -> Result<()> {
        // A GET of no object in particular is one of the bucket: a page of its keys.
        let mut page = self.bucket.get_object(Some(&self.credentials), "");
        let query = page.query_mut();
        query.insert("list-type", "2");
        query.insert("prefix", prefix);
        query.insert("delimiter", "/");
        query.insert("max-keys", PAGE_KEYS.to_string());
        let url = page.sign(URL_LIFE);
        let mut answer =
            agent.get(url.as_str()).call().with_context(|| format!("LIST {prefix}"))?;
        let keys = answer.body_mut().read_to_string()?.matches("<Key>").count();
        if keys != PAGE_KEYS {
            bail!("LIST {prefix} gave {keys} keys instead of {PAGE_KEYS}");
        }
        Ok(())
    }

    fn delete(&self, agent: &ureq::Agent, key: &str) -> Result<()> {
        let url = self.bucket.delete_object(Some(&self.credentials), key).sign(URL_LIFE);
        agent.delete(url.as_str()).call().with_context(|| format!("DELETE {key}"))?;
        Ok(())
    }
}

fn read_key(body: &[u8], number: usize) -> String {
    format!("{}{number}", read_prefix(body))
}

fn read_prefix(body: &[u8]) -> String {
    format!("r/{}/", body.len())
}

/// One connection, kept open.
fn agent() -> ureq::Agent {
    ureq::Agent::config_builder().timeout_global(Some(Duration::from_secs(30))).build().new_agent()
}

const _: () = assert!(PAGE_KEYS < READ_OBJECTS);

//! The load under which the program counts what it does: what the benchmark measures and what it
//! does not, over every engine, so that nothing which users run looks as if nobody did.
//!
//! Blocks go to a bucket that a gateway of the same program serves, which keeps its own in a
//! folder: so both ways of keeping them are taken, and nothing else has to be there but the
//! databases.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use load::{Gauge, Runner, Verb, Workload};

use crate::certificate::Certificate;
use crate::child::Stop;
use crate::engines::{Databases, Engine};
use crate::progress::{Mark, Progress};
use crate::servers::{BLOCK_BUCKET, Blocks, Server};

/// How long each workload lasts.
const TIME: Duration = Duration::from_secs(2);

/// How long a database is left alone at the end, so that what runs in the background is counted:
/// bodies are settled, files reaped.
const REST: Duration = Duration::from_secs(5);

/// What contents and order follow from.
const SEED: u64 = 0x00A5_41A3;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Workloads, with the bytes of an object and the number of clients.
const LOAD: [(Verb, u64, usize); 18] = [
    (Verb::Put, 4 * KIB, 16),
    (Verb::Put, 64 * KIB, 16),
    (Verb::Put, 64 * KIB, 1),
    (Verb::Put, MIB, 16),
    (Verb::Put, 16 * MIB, 4),
    (Verb::Get, 16 * MIB, 4),
    (Verb::Get, MIB, 16),
    (Verb::Get, 64 * KIB, 16),
    (Verb::Get, 4 * KIB, 16),
    (Verb::Get, 4 * KIB, 1),
    (Verb::Head, 4 * KIB, 16),
    (Verb::Range, 16 * MIB, 8),
    (Verb::Multipart, 16 * MIB, 4),
    (Verb::List, 4 * KIB, 8),
    (Verb::Mixed, 256 * KIB, 8),
    (Verb::Mixed, 16 * KIB, 16),
    (Verb::Delete, 4 * KIB, 16),
    (Verb::DeleteBatch, 4 * KIB, 4),
];

/// Loads the program over each engine, once over TLS.
pub(super) fn run(program: &Path, stop: &Stop) -> Result<()> {
    let folder = tempfile::Builder::new().prefix("ashlar-training-").tempdir()?;
    let folder = folder.path();
    let below = |name: &str| {
        let made = folder.join(name);
        std::fs::create_dir(&made).map(|()| made)
    };
    let (own, progress) = (below("bucket")?, Progress::new());
    let meta = format!("sqlite:{}", own.join("meta.sqlite").display());
    let mut bucket = Server::gateway(program, &own, &meta, Blocks::Folder, None, &[], stop)?;
    runner(&bucket, BLOCK_BUCKET)?;
    let certificate = Certificate::make(&below("certificate")?)?;
    for engine in Engine::ALL {
        let name = engine.name();
        let running = progress.begin(&format!("load ({name})"));
        let folder = below(name)?;
        let mut databases = Databases::default();
        databases.start(engine)?;
        let meta = databases.fresh(engine, &folder, "training")?;
        let blocks = Blocks::Bucket(&bucket.endpoint, name);
        let certificate = Some(&certificate).filter(|_| engine == Engine::Sqlite);
        let gateway = Server::gateway(program, &folder, &meta, blocks, certificate, &[], stop)?;
        load(gateway, stop).with_context(|| format!("over {name}"))?;
        running.end(Mark::Passed, "");
    }
    end(&mut bucket)
}

/// Loads one gateway with everything, and ends it: then it writes down what it has counted.
fn load(mut gateway: Server, stop: &Stop) -> Result<()> {
    let (mut runner, gauge) = (runner(&gateway, "training")?, Arc::new(Gauge::default()));
    for (verb, bytes, clients) in LOAD {
        stop.check()?;
        let workload = Workload::new(verb, bytes, clients, TIME);
        runner.prepare(&workload, &gauge)?;
        let round = runner.round(&workload, &gauge)?;
        if round.errors > 0 {
            bail!("{} requests failed: {}", round.errors, round.samples.join("; "));
        }
    }
    stop.sleep(REST)?;
    end(&mut gateway)
}

fn end(server: &mut Server) -> Result<()> {
    let status = server.child.end()?;
    if !status.success() {
        bail!("a gateway ended with {status}");
    }
    Ok(())
}

/// The load on a server, in a bucket that it now has.
fn runner(server: &Server, bucket: &str) -> Result<Runner> {
    let runner = Runner::new(&server.target(bucket), "training/", SEED, 1)?;
    runner.make_bucket().with_context(|| format!("cannot use {}", server.endpoint))?;
    Ok(runner)
}

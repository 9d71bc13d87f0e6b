//! The load under which the first build counts (PGO training).
//!
//! The load contains the workloads of the benchmark and others, over every engine, because the
//! compiler treats code without counts as code that never runs. For example, without DELETE in the
//! load, users would get slow deletes.
//!
//! The gateways under load keep their blocks in a bucket of another gateway of the same program,
//! and that gateway keeps its blocks in a folder. So both block stores are counted, and the
//! training needs no server except the databases.

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

/// The duration of each workload.
const TIME: Duration = Duration::from_secs(2);

/// The pause after the load of an engine, so that the work in the background is counted too: the
/// gateway moves staged bodies into blocks and reaps deleted files.
const REST: Duration = Duration::from_secs(5);

/// The seed of contents and of the order of requests.
const SEED: u64 = 0x00A5_41A3;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// The workloads, each with the bytes of an object and the number of clients.
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

/// Puts load on the program over each engine. SQLite's gateway has TLS.
pub(super) fn run(program: &Path, stop: &Stop) -> Result<()> {
    let folder = tempfile::Builder::new().prefix("ashlar-training-").tempdir()?;
    let folder = folder.path();
    let below = |name: &str| {
        let made = folder.join(name);
        std::fs::create_dir(&made).map(|()| made)
    };
    let (own, progress) = (below("bucket")?, Progress::new());
    let meta = format!("sqlite:{}", own.join("meta.sqlite").display());
    // This gateway stores the blocks of the others, so it counts the code of a bucket under load.
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
        // One engine with TLS is enough, because the TLS code does not depend on the engine.
        let certificate = Some(&certificate).filter(|_| engine == Engine::Sqlite);
        let gateway = Server::gateway(program, &folder, &meta, blocks, certificate, &[], stop)?;
        load(gateway, stop).with_context(|| format!("over {name}"))?;
        running.end(Mark::Passed, "");
    }
    end(&mut bucket)
}

/// Runs all workloads on one gateway, and ends it. A program writes its counts when it ends.
fn load(mut gateway: Server, stop: &Stop) -> Result<()> {
    let (mut runner, gauge) = (runner(&gateway, "training")?, Arc::new(Gauge::default()));
    for (verb, bytes, clients) in LOAD {
        stop.check()?;
        let workload = Workload::new(verb, bytes, clients, TIME);
        runner.prepare(&workload, &gauge)?;
        let round = runner.round(&workload, &gauge)?;
        // Failed requests would train the error paths instead of the normal ones.
        if round.errors > 0 {
            bail!("{} requests failed: {}", round.errors, round.samples.join("; "));
        }
    }
    stop.sleep(REST)?;
    end(&mut gateway)
}

/// Ends a gateway. Fails if its exit status is not 0, because then its counts are missing.
fn end(server: &mut Server) -> Result<()> {
    let status = server.child.end()?;
    if !status.success() {
        bail!("the gateway ended with {status}");
    }
    Ok(())
}

/// Creates a bucket on the server, and returns the load generator for it.
fn runner(server: &Server, bucket: &str) -> Result<Runner> {
    let runner = Runner::new(&server.target(bucket), "training/", SEED, 1)?;
    runner.make_bucket().with_context(|| format!("cannot use {}", server.endpoint))?;
    Ok(runner)
}

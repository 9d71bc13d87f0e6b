//! The largest rate of the generator: rounds against an endpoint in another thread that does no
//! work.
//!
//! `cargo run --release -p load --example ceiling`

#[path = "../tests/endpoint/mod.rs"]
mod endpoint;

use std::sync::Arc;
use std::time::Duration;

use load::{Gauge, KeyPair, Runner, TargetBucket, Verb, Workload};

/// A verb, bytes and clients.
const ROWS: [(Verb, u64, usize); 6] = [
    (Verb::Put, 4 << 10, 16),
    (Verb::Get, 4 << 10, 16),
    (Verb::Head, 4 << 10, 16),
    (Verb::Put, 1 << 20, 16),
    (Verb::Get, 1 << 20, 16),
    (Verb::Get, 16 << 20, 4),
];

fn main() -> Result<(), load::Trouble> {
    let target = TargetBucket {
        endpoint: format!("http://{}", endpoint::start(|_, _, _| ())),
        bucket: "bucket".to_owned(),
        region: "us-east-1".to_owned(),
        credentials: KeyPair {
            access_key: "a".to_owned(),
            secret_key: "s".to_owned(),
            session_token: None,
        },
        authority: None,
        unsigned: false,
    };
    let (mut runner, gauge) = (Runner::new(&target, "run/", 7, 1)?, Arc::new(Gauge::default()));
    for (verb, bytes, clients) in ROWS {
        let workload = Workload::new(verb, bytes, clients, Duration::from_secs(3));
        runner.prepare(&workload, &gauge)?;
        let round = runner.round(&workload, &gauge)?;
        println!(
            "{verb} {bytes} x{clients}: {:.0} /s, {:.0} MiB/s, p99 {:?}, {} errors",
            round.rate(),
            round.mib_rate(),
            round.percentile(99.0),
            round.errors
        );
    }
    Ok(())
}

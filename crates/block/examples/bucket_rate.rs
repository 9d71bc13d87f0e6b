//! The cost of a request to a bucket for this process: `cargo run --release -p block --example
//! bucket_rate ENDPOINT ACCESS_KEY SECRET_KEY BUCKET`. The same requests through the SDK and
//! through `BucketBlocks`, in turns; medians of CPU time per request, and of the rate.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use aws_sdk_s3::Client;
use aws_sdk_s3::config::{
    BehaviorVersion, Credentials, IdentityCache, Region, RequestChecksumCalculation,
    ResponseChecksumValidation, StalledStreamProtectionConfig, retry::RetryConfig,
};
use aws_sdk_s3::primitives::ByteStream;
use aws_smithy_http_client::Builder as HttpBuilder;
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use block::{
    BlockId, BlockStore, BucketBlocks, BucketOptions, Nonce, SealedBlock, Sealer, SecretKey,
};
use bytes::{Bytes, BytesMut};
use tokio::task::JoinSet;

const TASKS: u64 = 16;
const EACH: Duration = Duration::from_secs(3);
const ROUNDS: usize = 3;

/// A way of making requests.
#[async_trait]
trait Way: Send + Sync {
    async fn put(&self, block: &SealedBlock);
    async fn get(&self, block: &SealedBlock) -> Bytes;
}

struct Lean(BucketBlocks);

#[async_trait]
impl Way for Lean {
    async fn put(&self, block: &SealedBlock) {
        self.0.put(block).await.expect("put");
    }

    async fn get(&self, block: &SealedBlock) -> Bytes {
        self.0.get(block.id(), 0..block.sealed_bytes()).await.expect("get")
    }
}

struct Sdk(Client, String);

#[async_trait]
impl Way for Sdk {
    async fn put(&self, block: &SealedBlock) {
        let body = ByteStream::from(block.to_bytes());
        let request = self.0.put_object().bucket(&self.1).key(block.id().to_string()).body(body);
        let sending = request.customize().disable_payload_signing().send();
        Box::pin(sending).await.expect("put");
    }

    async fn get(&self, block: &SealedBlock) -> Bytes {
        let range = format!("bytes=0-{}", block.to_bytes().len() - 1);
        let request = self.0.get_object().bucket(&self.1).key(block.id().to_string());
        let mut found = Box::pin(request.range(range).send()).await.expect("get");
        let mut body = BytesMut::with_capacity(block.to_bytes().len());
        while let Some(piece) = found.body.try_next().await.expect("get") {
            body.extend_from_slice(&piece);
        }
        body.freeze()
    }
}

fn sdk(options: &BucketOptions, secret: &str) -> Sdk {
    let endpoint = options.endpoint.clone().expect("given");
    let http = HttpBuilder::new();
    let http = if endpoint.starts_with("https://") {
        http.tls_provider(Provider::Rustls(CryptoMode::AwsLc)).build_https()
    } else {
        http.build_http()
    };
    let config = aws_sdk_s3::Config::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .http_client(http)
        .endpoint_url(endpoint)
        .region(Region::new(options.region.clone()))
        .credentials_provider(Credentials::new(&options.access_key, secret, None, None, "rate"))
        .identity_cache(IdentityCache::lazy().build())
        .force_path_style(true)
        .request_checksum_calculation(RequestChecksumCalculation::WhenRequired)
        .response_checksum_validation(ResponseChecksumValidation::WhenRequired)
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
        .retry_config(RetryConfig::disabled())
        .build();
    Sdk(Client::from_conf(config), options.bucket.clone())
}

fn block(counter: u64, length: u32) -> SealedBlock {
    let mut sealer = Sealer::new(BlockId::new(Nonce([9; Nonce::BYTES]), counter), length);
    sealer.push_copy(&vec![7; length as usize]);
    sealer.finish()
}

/// The CPU time of the threads of this process.
fn cpu() -> Duration {
    let tasks = fs::read_dir("/proc/self/task").expect("Linux");
    let nanos = tasks.filter_map(|task| {
        let text = fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanos.sum())
}

/// Microseconds of CPU per request, and requests per second.
async fn measure(way: &Arc<dyn Way>, writes: bool, length: u32) -> (f64, f64) {
    let mut tasks = JoinSet::new();
    let (begun, before) = (Instant::now(), cpu());
    for task in 0..TASKS {
        let (way, block) = (Arc::clone(way), block(task, length));
        tasks.spawn(async move {
            let mut done = 0_u32;
            while begun.elapsed() < EACH {
                if writes {
                    way.put(&block).await;
                } else {
                    assert_eq!(way.get(&block).await.len(), block.to_bytes().len());
                }
                done += 1;
            }
            done
        });
    }
    let done = f64::from(tasks.join_all().await.into_iter().sum::<u32>());
    let used = cpu().saturating_sub(before).as_secs_f64();
    (used * 1e6 / done, done / begun.elapsed().as_secs_f64())
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [endpoint, access, secret, bucket] = arguments.as_slice() else {
        panic!("ENDPOINT ACCESS_KEY SECRET_KEY BUCKET");
    };
    let options = BucketOptions {
        endpoint: Some(endpoint.clone()),
        path_style: true,
        ..BucketOptions::new(bucket, access, SecretKey::new(secret))
    };
    let sdk = sdk(&options, secret);
    // Another run may have created it.
    let _ = sdk.0.create_bucket().bucket(bucket).send().await;
    let ways: [(&str, Arc<dyn Way>); 2] = [
        ("SDK", Arc::new(sdk)),
        ("lean", Arc::new(Lean(BucketBlocks::connect(options).expect("good options")))),
    ];
    println!("| request | way | CPU µs per request | requests/s |\n|---|---|---:|---:|");
    for (writes, length) in [
        (true, 4 << 10),
        (true, 1 << 20),
        (true, 4 << 20),
        (false, 4 << 10),
        (false, 64 << 10),
        (false, 4 << 20),
    ] {
        let mut figures = vec![(Vec::new(), Vec::new()); ways.len()];
        for (_, way) in &ways {
            for task in 0..TASKS {
                way.put(&block(task, length)).await;
            }
        }
        for _ in 0..ROUNDS {
            for ((_, way), (cpu, rate)) in ways.iter().zip(&mut figures) {
                let (used, done) = measure(way, writes, length).await;
                cpu.push(used);
                rate.push(done);
            }
        }
        for ((name, _), (cpu, rate)) in ways.iter().zip(figures) {
            let verb = if writes { "PUT" } else { "GET" };
            let (cpu, rate) = (median(cpu), median(rate));
            println!("| {verb} {} KiB | {name} | {cpu:.0} | {rate:.0} |", length >> 10);
        }
    }
}

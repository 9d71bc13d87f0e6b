//! The contract of block stores, for blocks in a real bucket.
//!
//! Needs an S3 service, named by `ASHLAR_TEST_S3_ENDPOINT`, `ASHLAR_TEST_S3_ACCESS_KEY` and
//! `ASHLAR_TEST_S3_SECRET_KEY`. Without them these tests print that and pass, unless
//! `ASHLAR_TEST_REQUIRE_SERVICES=1`. Each run makes a bucket of its own.

mod damages;

use std::io::Write;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, UNIX_EPOCH};

use aws_sdk_s3::Client;
use aws_sdk_s3::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_s3::primitives::ByteStream;
use block::{
    BlockError, BlockErrorKind, BlockId, BlockReader, BlockRef, BlockStore, BucketBlocks,
    BucketOptions, Encrypting, Nonce, RetryLimits, Retrying, Sealer, SecretKey, UncachedReader,
};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::OnceCell;
use tokio::task::JoinSet;

struct Service {
    endpoint: String,
    access_key: String,
    secret_key: String,
    bucket: String,
}

#[expect(clippy::disallowed_methods, reason = "only the environment knows where the service is")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The service under test with a fresh bucket, or `None` if there is no service.
async fn service() -> Option<&'static Service> {
    static SERVICE: OnceCell<Option<Service>> = OnceCell::const_new();
    SERVICE.get_or_init(make_bucket).await.as_ref()
}

async fn make_bucket() -> Option<Service> {
    let found = (
        variable("ASHLAR_TEST_S3_ENDPOINT"),
        variable("ASHLAR_TEST_S3_ACCESS_KEY"),
        variable("ASHLAR_TEST_S3_SECRET_KEY"),
    );
    let (Some(endpoint), Some(access_key), Some(secret_key)) = found else {
        assert!(
            variable("ASHLAR_TEST_REQUIRE_SERVICES").is_none_or(|required| required != "1"),
            "ASHLAR_TEST_S3_ENDPOINT, _ACCESS_KEY and _SECRET_KEY must name a service"
        );
        // Bypasses the capture of test output, so that a reader of the results sees it.
        let notice = b"NOT RUN against a bucket: ASHLAR_TEST_S3_ENDPOINT is not set\n";
        std::io::stderr().write_all(notice).expect("standard error is open");
        return None;
    };
    #[expect(clippy::disallowed_methods, reason = "a name that no earlier run has used")]
    let now = std::time::SystemTime::now();
    let nanos = now.duration_since(UNIX_EPOCH).expect("after 1970").as_nanos();
    let bucket = format!("ashlar-blocks-{nanos}");
    let service = Service { endpoint, access_key, secret_key, bucket };
    let made = client(&service).create_bucket().bucket(&service.bucket).send().await;
    made.expect("the service lets us make a bucket");
    Some(service)
}

/// A client of the service itself, for requests that a block store does not make.
fn client(service: &Service) -> Client {
    let (access, secret) = (service.access_key.clone(), service.secret_key.clone());
    let config = aws_sdk_s3::Config::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .endpoint_url(&service.endpoint)
        .region(Region::new("us-east-1"))
        .credentials_provider(Credentials::new(access, secret, None, None, "test"))
        .force_path_style(true)
        .build();
    Client::from_conf(config)
}

fn options(service: &Service) -> BucketOptions {
    static NEXT_PREFIX: AtomicU32 = AtomicU32::new(0);
    let secret = SecretKey::new(service.secret_key.clone());
    BucketOptions {
        endpoint: Some(service.endpoint.clone()),
        prefix: format!("test/{}", NEXT_PREFIX.fetch_add(1, Ordering::Relaxed)),
        path_style: true,
        ..BucketOptions::new(service.bucket.clone(), service.access_key.clone(), secret)
    }
}

async fn fresh() -> Option<((), BucketBlocks)> {
    let store = BucketBlocks::connect(options(service().await?)).expect("good options");
    store.probe().await.expect("the service answers");
    assert!(
        store.supports_conditional_put(),
        "without conditions a bucket cannot refuse other bytes"
    );
    Some(((), store))
}

block::conformance!(fresh);

mod secret_blocks {
    use super::*;

    async fn fresh() -> Option<((), Encrypting<BucketBlocks>)> {
        let ((), store) = super::fresh().await?;
        Some(((), Encrypting::new(store, damages::ring())))
    }

    block::conformance!(fresh, secret);

    #[tokio::test]
    async fn each_damage_in_a_bucket_is_corrupt() {
        let Some(service) = service().await else { return };
        let options = options(service);
        let (client, prefix) = (client(service), options.prefix.clone());
        let plant = |id: BlockId, object: Vec<u8>| {
            let group = format!("{:09x}", id.counter() / 4_096);
            let key = format!("{prefix}/{}/{group}/{id}", id.session());
            let put = client.put_object().bucket(&service.bucket).key(key);
            async move {
                let put = put.body(ByteStream::from(object)).send().await;
                put.expect("the object can be replaced");
            }
        };
        let inner = BucketBlocks::connect(options).expect("good options");
        damages::each_damage_is_corrupt(Arc::new(inner), plant).await;
    }

    #[tokio::test]
    async fn bucket_refuses_a_block_that_is_to_be_encrypted() {
        let Some(((), store)) = super::fresh().await else { return };
        let block = damages::seal(damages::id(1), Some(damages::RING), b"marker");
        let error = store.put(&block).await.expect_err("it would be stored in the clear");
        assert_eq!(error.kind(), BlockErrorKind::Refused, "{error}");
        assert_eq!(store.size(block.id()).await.expect("an answer"), None);
    }
}

fn block(byte: u8) -> block::SealedBlock {
    let mut sealer = Sealer::new(BlockId::new(Nonce([1; Nonce::BYTES]), 1), 100);
    sealer.push_copy(&[byte; 100]);
    sealer.finish()
}

fn bare(counter: u64, content: &[u8]) -> block::SealedBlock {
    let id = BlockId::bare(Nonce([1; Nonce::BYTES]), counter);
    let mut sealer = Sealer::new(id, 0);
    sealer.push_copy(content);
    sealer.finish()
}

/// Returns all bytes that arrive of a range.
async fn arrived(store: &BucketBlocks, id: BlockId, bytes: Range<u64>) -> Vec<u8> {
    let mut source = store.open(id, bytes).await.expect("the block is there");
    let mut found = Vec::new();
    while let Some(frame) = source.next().await.expect("it arrives") {
        found.extend_from_slice(&frame);
    }
    found
}

#[tokio::test]
async fn a_bare_block_is_read_as_any_other_and_its_md5_is_told() {
    let Some(((), store)) = fresh().await else { return };
    assert!(store.reports_md5(), "the probe found that the service computes MD5s");
    let content: Vec<u8> = (0..300_000_u32).map(|at| (at ^ (at >> 9)).to_le_bytes()[0]).collect();
    let block = bare(1, &content);
    let mut md5 = hashing::Md5::new();
    md5.update(&content);
    let told = store.put(&block).await.expect("put").content_md5;
    assert_eq!(told, Some(md5.finish()));
    let again = store.put(&block).await.expect("the same bytes again");
    assert_eq!(again.content_md5, None, "it was there, and nothing was computed");
    let sealed = block.to_bytes();
    let size = sealed.len();
    for range in [0..size, 0..1, 31..33, 65_000..66_000, 65_568..131_100, size - 5..size + 100] {
        let asked = range.start as u64..range.end as u64;
        let expected = sealed.slice(range.start..range.end.min(size));
        let found = store.get(block.id(), asked.clone()).await.expect("get");
        assert!(found == expected, "{range:?} differs");
        assert!(arrived(&store, block.id(), asked).await == expected, "{range:?} arrives");
    }
    let behind = size as u64..size as u64 + 1;
    assert!(store.get(block.id(), behind).await.expect("get").is_empty(), "nothing lies behind");
    let size = block.sealed_bytes();
    assert_eq!(store.size(block.id()).await.expect("size"), Some(size));
    let page = store.list(block.id().session(), None).await.expect("list");
    assert_eq!(page.blocks, [(block.id(), size)]);
    let other = store.put(&bare(1, &vec![9; 70_000])).await.expect_err("another content");
    assert_eq!(other.kind(), BlockErrorKind::Conflict);
    store.delete(block.id()).await.expect("delete");
    let gone = store.get(block.id(), 0..9).await.expect_err("it is gone");
    assert_eq!(gone.kind(), BlockErrorKind::NotFound);
}

#[tokio::test]
async fn foreign_object_under_a_bare_id_is_a_conflict() {
    let Some(service) = service().await else { return };
    let options = options(service);
    let (block, prefix) = (bare(7, &[3; 1_000]), options.prefix.clone());
    let store = BucketBlocks::connect(options).expect("good options");
    store.probe().await.expect("the service answers");
    let (id, session) = (block.id(), block.id().session());
    let key = format!("{prefix}/{session}/{:09x}/{id}", id.counter() / 4_096);
    let foreign = ByteStream::from_static(&[3; 1_000]);
    let put = client(service).put_object().bucket(&service.bucket).key(key).body(foreign);
    put.send().await.expect("the service takes it");
    let found = store.get(id, 0..9).await.expect_err("it has no checksums");
    check(&found, BlockErrorKind::ChecksumsLost, "its object has lost its checksums");
    let refused = store.put(&block).await.expect_err("the name is taken");
    assert_eq!(refused.kind(), BlockErrorKind::Conflict);
}

#[tokio::test]
async fn bare_block_without_checksums_is_verified_by_its_record() {
    let Some(service) = service().await else { return };
    let options = options(service);
    let content: Vec<u8> = (0..3_000_000_u32).map(|at| (at ^ (at >> 9)).to_le_bytes()[0]).collect();
    let (block, prefix) = (bare(8, &content), options.prefix.clone());
    let store = BucketBlocks::connect(options).expect("good options");
    store.probe().await.expect("the service answers");
    assert_eq!(store.warnings(), [""; 0]);
    let (id, session) = (block.id(), block.id().session());
    store.put(&block).await.expect("put");
    let key = format!("{prefix}/{session}/{:09x}/{id}", id.counter() / 4_096);
    let copy = client(service).put_object().bucket(&service.bucket).key(key);
    copy.body(ByteStream::from(content.clone())).send().await.expect("the service takes it");
    let lost = store.get(id, 0..9).await.expect_err("its checksums are lost");
    check(&lost, BlockErrorKind::ChecksumsLost, "its object has lost its checksums");
    let other = BlockRef { crc32c: block.crc32c() ^ 1, ..block.reference() };
    let error = store.recompute_checksums(other).await.expect_err("another block's record");
    check(&error, BlockErrorKind::Corrupt, "its content is not the record's");
    let longer = BlockRef { length: block.length() + 1, ..block.reference() };
    let error = store.recompute_checksums(longer).await.expect_err("another length");
    check(&error, BlockErrorKind::Corrupt, "its object has 3000000 bytes, but the record 3000001");
    let direct = UncachedReader::new(store);
    for range in [0..3_000_000, 0..1, 2_999_999..3_000_000, 65_535..65_537, 100_000..2_500_000] {
        let found = direct.read(block.reference(), range.clone()).await.expect("it is read");
        let (start, end) = (range.start as usize, range.end as usize);
        assert!(found.concat() == content[start..end], "{range:?} differs");
    }
    let mut arrival = direct.arrival(block.reference(), 0..3_000_000).expect("it arrives");
    let mut arrived = Vec::new();
    while direct.advance(&mut arrival).await.expect("it arrives") {
        while let Some(piece) = arrival.take() {
            arrived.extend_from_slice(&piece);
        }
    }
    assert!(arrived == content, "the arrived bytes differ");
    let told = direct.inner().warnings();
    assert!(told.len() == 1 && told[0].starts_with("1 blocks in bucket"), "{told:?}");
}

#[track_caller]
fn check(error: &BlockError, kind: BlockErrorKind, words: &str) {
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(words), "{error} lacks {words:?}");
}

#[tokio::test]
async fn every_call_to_a_missing_bucket_is_refused() {
    let Some(service) = service().await else { return };
    let store = BucketBlocks::connect(BucketOptions {
        bucket: "no-such-bucket-here".to_owned(),
        ..options(service)
    })
    .expect("good options");
    let words = "there is no bucket no-such-bucket-here: make the bucket or correct --blocks";
    let (id, session) = (block(1).id(), block(1).id().session());
    let refused = BlockErrorKind::Refused;
    check(&store.probe().await.expect_err("probe"), refused, words);
    check(&store.put(&block(1)).await.expect_err("put"), refused, words);
    check(&store.get(id, 0..9).await.expect_err("get"), refused, words);
    check(&store.size(id).await.expect_err("size"), refused, words);
    check(&store.delete(id).await.expect_err("delete"), refused, words);
    check(&store.sessions().await.expect_err("sessions"), refused, words);
    check(&store.mark().await.expect_err("mark"), refused, words);
    let mark = bytes::Bytes::from_static(b"ours");
    check(&store.set_mark(mark).await.expect_err("set_mark"), refused, words);
    check(&store.list(session, None).await.expect_err("list"), refused, words);
}

#[tokio::test]
async fn wrong_secret_is_refused_and_not_shown() {
    let Some(service) = service().await else { return };
    let wrong = SecretKey::new("not-the-secret");
    let options = BucketOptions { secret_key: wrong, ..options(service) };
    assert!(!format!("{options:?}").contains("not-the-secret"));
    let store = BucketBlocks::connect(options).expect("good options");
    assert!(!format!("{store:?}").contains("not-the-secret"));
    let error = store.probe().await.expect_err("a wrong secret");
    check(&error, BlockErrorKind::Refused, "check the keys");
    assert!(!format!("{error} {error:?}").contains("not-the-secret"));
}

#[tokio::test]
async fn put_before_the_first_probe_succeeds() {
    let Some(service) = service().await else { return };
    let store = BucketBlocks::connect(options(service)).expect("good options");
    assert!(!store.supports_conditional_put());
    store.put(&block(1)).await.expect("put");
    store.put(&block(1)).await.expect("the same again");
    let found = store.get(block(1).id(), 0..9_999).await.expect("there");
    assert_eq!(found, block(1).to_bytes());
}

#[tokio::test]
async fn mark_is_kept_before_the_first_probe() {
    let Some(service) = service().await else { return };
    let options = options(service);
    let store = BucketBlocks::connect(options.clone()).expect("good options");
    store.set_mark(bytes::Bytes::from_static(b"ours\n")).await.expect("marked");
    let other = bytes::Bytes::from_static(b"another's");
    let error = store.set_mark(other).await.expect_err("a mark exists");
    check(&error, BlockErrorKind::Conflict, "marking the blocks");
    let get = client(service).get_object().bucket(&service.bucket);
    let found = get.key(format!("{}/volume", options.prefix)).send().await.expect("its place");
    let found = found.body.collect().await.expect("readable").into_bytes();
    assert_eq!(found.as_ref(), b"ours\n");
}

#[tokio::test]
async fn stray_key_fails_a_listing() {
    let Some(service) = service().await else { return };
    let options = options(service);
    let session = block(1).id().session();
    let store = BucketBlocks::connect(options.clone()).expect("good options");
    store.put(&block(1)).await.expect("put");
    let write = |key: String| {
        let body = ByteStream::from_static(b"notes");
        client(service).put_object().bucket(&service.bucket).key(key).body(body).send()
    };
    write(format!("{}/notes/today", options.prefix)).await.expect("beside the sessions");
    assert_eq!(store.sessions().await.expect("it is no session"), [session]);
    store.list(session, None).await.expect("it is in no session");
    write(format!("{}/{session}/000000000/notes", options.prefix)).await.expect("among blocks");
    let error = store.list(session, None).await.expect_err("a stray key");
    check(&error, BlockErrorKind::Corrupt, "notes\" in bucket");
}

#[tokio::test]
async fn probe_overwrites_no_object_of_another_program() {
    let Some(service) = service().await else { return };
    let options = options(service);
    let key = |name: &str| format!("{}/{name}", options.prefix);
    let names = ["probe", "probebare", "probesealed"];
    for name in names {
        let body = ByteStream::from_static(b"foreign");
        let put = client(service).put_object().bucket(&service.bucket).key(key(name)).body(body);
        put.send().await.expect("an object of another program");
    }
    let store = BucketBlocks::connect(options.clone()).expect("good options");
    store.probe().await.expect("the service answers");
    for name in names {
        let get = client(service).get_object().bucket(&service.bucket).key(key(name));
        let found = get.send().await.expect("still there").body.collect().await.expect("readable");
        assert_eq!(found.into_bytes().as_ref(), b"foreign", "{name}");
    }
}

#[tokio::test]
async fn locked_bucket_causes_a_warning_and_few_probes() {
    let Some(service) = service().await else { return };
    let bucket = format!("{}-locked", service.bucket);
    let client = client(service);
    let made = client.create_bucket().bucket(&bucket).object_lock_enabled_for_bucket(true);
    made.send().await.expect("the service makes locked buckets");
    let options = BucketOptions { bucket: bucket.clone(), ..options(service) };
    let store = BucketBlocks::connect(options).expect("good options");
    store.probe().await.expect("it is a place for blocks");
    let told = store.warnings();
    assert!(told.len() == 1 && told[0].contains("and locks them"), "{told:?}");
    tokio::time::sleep(Duration::from_secs(11)).await;
    store.probe().await.expect("it still is");
    let listed = client.list_object_versions().bucket(&bucket).send().await.expect("listed");
    let versions = |name: &str| {
        let named = |it: &&aws_sdk_s3::types::ObjectVersion| {
            it.key().is_some_and(|key| key.rsplit('/').next() == Some(name))
        };
        listed.versions().iter().filter(named).count()
    };
    let probes = ["ashlarprobe5b1f6c0e9d7a4832", "ashlarprobebare5b1f6c0e9d7a4832"];
    assert_eq!(probes.map(versions), [1, 1]);
}

#[tokio::test]
async fn many_calls_share_the_client() {
    let Some((_guard, store)) = fresh().await else { return };
    store.put(&block(1)).await.expect("put");
    let id = block(1).id();
    let calls = (0..200).map(|_| store.get(id, 0..100));
    let found = tokio::time::timeout(Duration::from_secs(20), futures::future::join_all(calls));
    for bytes in found.await.expect("soon enough") {
        assert_eq!(bytes.expect("there"), block(1).to_bytes().slice(..100));
    }
}

/// A proxy between a client and the service, which can be stopped and started.
struct Gate {
    port: u16,
    upstream: String,
}

impl Gate {
    /// Forwards connections. Aborting the returned task closes all of them.
    async fn open(&self) -> tokio::task::JoinHandle<()> {
        let listener = TcpListener::bind(("127.0.0.1", self.port)).await.expect("the port is ours");
        let upstream = self.upstream.clone();
        #[expect(clippy::disallowed_methods, reason = "the service beside the test")]
        tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            loop {
                let (mut near, _) = listener.accept().await.expect("a connection");
                let upstream = upstream.clone();
                connections.spawn(async move {
                    let mut far = TcpStream::connect(upstream).await.expect("the service listens");
                    let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
                });
            }
        })
    }
}

#[tokio::test]
async fn stopped_service_is_unavailable_and_recovers_with_the_same_client() {
    let Some(service) = service().await else { return };
    let upstream = service.endpoint.trim_start_matches("http://").to_owned();
    let gate = Gate { port: ports::reserve().port(), upstream };
    let endpoint = Some(format!("http://127.0.0.1:{}", gate.port));
    let store = BucketBlocks::connect(BucketOptions { endpoint, ..options(service) });
    let within = Duration::from_secs(1);
    let limits =
        RetryLimits { deadline: within, listing_deadline: within, ..RetryLimits::default() };
    let store = Retrying::new(store.expect("good options"), limits, 1);
    let (id, session) = (block(1).id(), block(1).id().session());

    let running = gate.open().await;
    store.probe().await.expect("the service runs");
    store.put(&block(1)).await.expect("the service runs");
    running.abort();
    let _ = running.await;

    let begun = Instant::now();
    for error in [
        store.put(&block(1)).await.expect_err("put"),
        store.get(id, 0..9).await.expect_err("get"),
        store.size(id).await.map(|_| ()).expect_err("size"),
        store.delete(id).await.expect_err("delete"),
        store.list(session, None).await.map(|_| ()).expect_err("list"),
        store.probe().await.expect_err("probe"),
    ] {
        check(&error, BlockErrorKind::Unavailable, "cannot be reached");
    }
    // Without the deadline each call would continue until the service runs.
    assert!(begun.elapsed() < 6 * within + Duration::from_secs(10), "{:?}", begun.elapsed());

    let waiting = store.get(id, 0..9);
    let (_running, found) = tokio::join!(gate.open(), waiting);
    assert_eq!(found.expect("the service is back"), block(1).to_bytes().slice(..9));
    store.put(&block(1)).await.expect("the service is back");
}

/// Forwards requests, and closes each connection after `bytes` bytes of responses.
async fn cut_after(upstream: String, bytes: u64) -> (u16, Arc<AtomicU32>, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    let cuts = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&cuts);
    let mut running = JoinSet::new();
    running.spawn(async move {
        let mut connections = JoinSet::new();
        loop {
            let (near, _) = listener.accept().await.expect("a connection");
            let (upstream, cuts) = (upstream.clone(), Arc::clone(&counted));
            connections.spawn(async move {
                let far = TcpStream::connect(upstream).await.expect("the service listens");
                let ((mut asks, mut hears), (answers, mut told)) =
                    (near.into_split(), far.into_split());
                let mut answers = answers.take(bytes);
                tokio::select! {
                    _ = tokio::io::copy(&mut asks, &mut told) => {}
                    copied = tokio::io::copy(&mut answers, &mut hears) => {
                        if copied.is_ok_and(|copied| copied == bytes) {
                            cuts.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
    });
    (port, cuts, running)
}

#[tokio::test]
async fn block_arrives_although_its_connections_are_cut() {
    let Some(service) = service().await else { return };
    let options = options(service);
    let mut sealer = Sealer::new(BlockId::new(Nonce([1; Nonce::BYTES]), 1), 4 << 20);
    let content: Vec<u8> = (0..4_u32 << 20).map(|at| (at * 7 % 255).to_le_bytes()[0]).collect();
    sealer.push_copy(&content);
    let block = sealer.finish();
    let store = BucketBlocks::connect(options.clone()).expect("good options");
    store.put(&block).await.expect("put");

    let upstream = service.endpoint.trim_start_matches("http://").to_owned();
    let (port, cuts, _running) = cut_after(upstream, 1_000_000).await;
    let endpoint = Some(format!("http://127.0.0.1:{port}"));
    let store = BucketBlocks::connect(BucketOptions { endpoint, ..options }).expect("good");
    let direct = UncachedReader::new(store);
    let mut arrival = direct.arrival(block.reference(), 0..4 << 20).expect("it is long enough");
    let mut found = Vec::new();
    while direct.advance(&mut arrival).await.expect("it goes on") {
        while let Some(piece) = arrival.take() {
            found.extend_from_slice(&piece);
        }
    }
    assert!(found == content);
    assert_eq!(direct.second_reads(), 0, "a cut connection is no damage");
    let cuts = cuts.load(Ordering::Relaxed);
    assert!(cuts >= 4, "{cuts} connections were cut");
}

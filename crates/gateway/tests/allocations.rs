//! Allocations of memory for one request, as the gateway carries it out. They are part of the cost
//! of each small request, and unlike times they are the same on each machine.
//!
//! Each test sends a request several times, so that all caches have their entries, and counts the
//! allocations of the last one. A higher count than its limit is a loss of speed; a limit may be
//! raised only for a feature that needs the allocation.

use std::sync::Arc;

use block::MemoryBlocks;
use bytes::Bytes;
use futures::FutureExt as _;
use gateway::{Gateway, HttpBody, Settings};
use http::{HeaderValue, Request, Response};
use http_body_util::{BodyExt as _, Full};
use identity::{Access, Identity, MasterKey, Secret};
use record::{Account, AccountId, CanonicalId, User};
use store::MemoryStore;
use volume::{AccessRecords, Volume, VolumeOptions};

const HOST: &str = "127.0.0.1:9700";

/// The access key and secret of a sender.
type Key = (&'static str, &'static str);

const ROOT: Key = ("root", "the secret of the operator");
const READER: Key = ("reader", "the secret of a user");

struct Fixture {
    volume: Arc<Volume>,
    gateway: Arc<Gateway>,
}

impl Fixture {
    /// Creates a gateway over a volume in memory, with the bucket `bucket` and a user who may read.
    async fn new() -> Fixture {
        let (store, blocks) = (Arc::new(MemoryStore::new()), Arc::new(MemoryBlocks::new()));
        let volume = Volume::open(VolumeOptions::default(), store, blocks).await;
        let volume = volume.expect("a volume");
        let root = Identity::root(ROOT.0, Secret::new(ROOT.1));
        let access = Access::new(root, MasterKey::new([7; MasterKey::BYTES]));
        let sealed = access.seal(READER.0, &Secret::new(READER.1), [9; MasterKey::NONCE_BYTES]);
        let user = User {
            uid: 1000,
            gid: 1000,
            umask: 0,
            policies: vec!["readonly".to_owned()],
            ..User::new(AccountId::MAIN, sealed)
        };
        let account = Account { name: "main".to_owned(), canonical_id: CanonicalId([7; 32]) };
        let unusable = access.replace(AccessRecords {
            accounts: vec![(AccountId::MAIN, account)],
            users: vec![(READER.0.to_owned(), user)],
            ..AccessRecords::default()
        });
        assert!(unusable.is_empty(), "{unusable:?}");
        let gateway = Gateway::new(Arc::clone(&volume), Arc::new(access), Settings::default());
        let fixture = Fixture { volume, gateway };
        assert_eq!(
            fixture.send(fixture.request("PUT", "/bucket", "", ROOT, b"")).await.status(),
            200
        );
        fixture
    }

    async fn put(&self, key: &str, body: &'static [u8]) {
        let target = format!("/bucket/{key}");
        let put = self.send(self.request("PUT", &target, "", ROOT, body)).await;
        assert_eq!(put.status(), 200, "{key}");
    }

    async fn send(&self, request: Request<HttpBody>) -> Response<HttpBody> {
        self.gateway.handle(request).await
    }

    /// Returns a request that the sender has signed, with the headers that common clients send.
    fn request(
        &self,
        method: &str,
        path: &str,
        query: &str,
        (access_key, secret): Key,
        body: &'static [u8],
    ) -> Request<HttpBody> {
        let date = sigv4::format_timestamp(rules::time(self.volume.now()));
        let scope = sigv4::CredentialScope::new(&date[..8], "us-east-1", "s3");
        let hash = sigv4::sha256_hex(body);
        let signed = [
            ("host", HOST),
            ("x-amz-content-sha256", hash.as_str()),
            ("x-amz-date", date.as_str()),
        ];
        let mut canonical = sigv4::CanonicalRequest::builder(method, path, query);
        let body = Full::new(Bytes::from_static(body)).map_err(|never| match never {});
        let mut request = Request::new(body.boxed_unsync());
        for (name, value) in signed {
            canonical.header(name, value.as_bytes());
            request.headers_mut().insert(name, header(value));
        }
        let canonical = canonical.finish(&hash);
        let key = sigv4::SigningKey::derive(secret, &scope);
        let signature = key.sign(&sigv4::string_to_sign(&date, &scope, &canonical)).to_hex();
        let proof =
            sigv4::authorization(access_key, &scope, canonical.signed_headers(), &signature);
        let headers = request.headers_mut();
        headers.insert("authorization", header(&proof));
        headers.insert("user-agent", HeaderValue::from_static("a client"));
        headers.insert("accept-encoding", HeaderValue::from_static("identity"));
        if !matches!(method, "GET" | "HEAD") {
            let length = HeaderValue::from(http_body::Body::size_hint(request.body()).lower());
            request.headers_mut().insert("content-length", length);
        }
        *request.method_mut() = method.parse().expect("a method");
        let target = if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") };
        *request.uri_mut() = target.parse().expect("a target");
        request
    }

    /// Returns the allocations for the response to a request that needs no wait, and the status.
    async fn allocations(&self, method: &str, path: &str, query: &str, sender: Key) -> u64 {
        for _ in 0..3 {
            self.send(self.request(method, path, query, sender, b"")).await;
        }
        let request = self.request(method, path, query, sender, b"");
        let mut response = None;
        let counted = allocation_counter::measure(|| {
            response = self.gateway.handle(request).now_or_never();
        });
        let response = response.expect("the records are in memory, so nothing is waited for");
        assert_eq!(response.status(), 200);
        counted.count_total
    }
}

fn header(value: &str) -> HeaderValue {
    HeaderValue::from_str(value).expect("the value of a header")
}

/// The most allocations of a GET or HEAD of a small object. Most of them plan the lookup of the
/// key; one is the key for the access log.
const SMALL_READ_MAX: u64 = 159;

/// The most allocations for each further key of a listing: its records, its name and its entity
/// tag.
const LISTED_KEY_MAX: u64 = 6;

const KIB_4: &[u8] = &[7; 4096];

#[tokio::test]
async fn a_get_of_a_small_object_allocates_little() {
    let fixture = Fixture::new().await;
    fixture.put("folder/key", KIB_4).await;
    for (method, sender) in [("GET", ROOT), ("HEAD", ROOT), ("GET", READER), ("HEAD", READER)] {
        let found = fixture.allocations(method, "/bucket/folder/key", "", sender).await;
        let limit = SMALL_READ_MAX;
        assert!(found <= limit, "{method} by {}: {found} allocations, not {limit}", sender.0);
    }
}

#[tokio::test]
async fn each_key_of_a_listing_allocates_little() {
    let fixture = Fixture::new().await;
    for number in 0..200 {
        fixture.put(&format!("folder/{number:03}"), b"body").await;
    }
    let list = async |keys: u64| {
        let query = format!("list-type=2&max-keys={keys}&prefix=folder%2F");
        fixture.allocations("GET", "/bucket", &query, READER).await
    };
    let (some, more) = (list(100).await, list(200).await);
    let found = (more - some).div_ceil(100);
    assert!(found <= LISTED_KEY_MAX, "{found} allocations for a key, not {LISTED_KEY_MAX}");
}

//! Authentication and limits of requests, over a volume in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use block::MemoryBlocks;
use bytes::Bytes;
use futures::stream;
use http::{HeaderValue, Request};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use identity::{Access, Authenticated, Identity, MasterKey, Secret};
use record::{AccountId, Ino};
use s3::auth::Verified;
use store::MemoryStore;
use tokio::time::Instant;
use volume::{FileOwner, NamedBucket, NewBucket, Volume, VolumeOptions};

use crate::http::{ExpectedBucket, HttpBody, Served, empty_body};
use crate::translate;
use crate::{Gateway, Settings};

async fn gateway() -> Arc<Gateway> {
    let (store, blocks) = (Arc::new(MemoryStore::new()), Arc::new(MemoryBlocks::new()));
    let volume = Volume::open(VolumeOptions::default(), store, blocks).await.unwrap();
    let root = Identity::root("root", Secret::new("a secret"));
    let access = Access::new(root, MasterKey::new([7; MasterKey::BYTES]));
    Gateway::new(volume, Arc::new(access), Settings::default())
}

/// The root user as the owner of new buckets.
fn owner() -> FileOwner {
    FileOwner {
        access_key: "root".to_owned(),
        account: AccountId::MAIN,
        writer: None,
        uid: 0,
        gid: 0,
        umask: 0,
    }
}

/// Returns the status, error code and operation of the response to a request without a body.
async fn ask(
    gateway: &Gateway,
    method: &str,
    target: &str,
    authorization: Option<&'static str>,
) -> (u16, Option<&'static str>, &'static str) {
    let headers: Vec<_> = authorization.map(|value| ("authorization", value)).into_iter().collect();
    ask_with(gateway, method, target, &headers, empty_body()).await
}

/// As [`ask`], with these headers and this body.
async fn ask_with(
    gateway: &Gateway,
    method: &str,
    target: &str,
    headers: &[(&'static str, &'static str)],
    body: HttpBody,
) -> (u16, Option<&'static str>, &'static str) {
    let mut request = Request::new(body);
    *request.method_mut() = method.parse().unwrap();
    *request.uri_mut() = target.parse().unwrap();
    request.headers_mut().insert("host", HeaderValue::from_static("127.0.0.1"));
    for (name, value) in headers {
        request.headers_mut().insert(*name, HeaderValue::from_static(value));
    }
    let response: http::Response<HttpBody> = gateway.handle(request).await;
    let (head, body) = response.into_parts();
    body.collect().await.unwrap();
    let served = head.extensions.get::<Served>().unwrap();
    (head.status.as_u16(), served.code, served.operation)
}

/// An unknown access key with an invalid signature.
const FORGED: &str = "AWS4-HMAC-SHA256 Credential=nobody/20260102/us-east-1/s3/aws4_request, \
                      SignedHeaders=host;x-amz-date, Signature=\
                      0000000000000000000000000000000000000000000000000000000000000000";

#[tokio::test]
async fn a_preflight_needs_no_signature() {
    let gateway = gateway().await;
    // A preflight without an `Origin` header is invalid.
    let open = (400, Some("BadRequest"), "OptionsObject");
    let presigned = "/bucket/key?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=nobody&X-Amz-\
                     Signature=0&uploadId=u&partNumber=1";
    for target in ["/bucket/key", "/bucket", "/bucket?list-type=2&prefix=a", presigned] {
        assert_eq!(ask(&gateway, "OPTIONS", target, None).await, open, "{target}");
        // A signature is ignored, because it may belong to another request.
        for proof in [FORGED, "nonsense", "AWS4-HMAC-SHA256 nonsense"] {
            assert_eq!(ask(&gateway, "OPTIONS", target, Some(proof)).await, open, "{target}");
        }
    }
}

#[tokio::test]
async fn other_operations_verify_the_signature() {
    let gateway = gateway().await;
    let proofs = [
        (FORGED, "AccessDenied"),
        ("AWS4-HMAC-SHA256 nonsense", "AuthorizationHeaderMalformed"),
        ("nonsense", "InvalidArgument"),
    ];
    for method in ["GET", "HEAD", "PUT", "DELETE"] {
        let (status, code, operation) = ask(&gateway, method, "/bucket/key", None).await;
        assert_eq!((status, code), (404, Some("NoSuchBucket")), "{method}");
        assert!(!operation.is_empty(), "an anonymous {method} has the name of its operation");
        for (proof, refusal) in proofs {
            let (_, code, refused) = ask(&gateway, method, "/bucket/key", Some(proof)).await;
            let expected = (Some(refusal), operation);
            assert_eq!((code, refused), expected, "{method} with {proof}");
        }
    }
}

const FORM: &[(&str, &str)] = &[("content-type", "multipart/form-data; boundary=xx")];

/// A form with one field that never ends: 1,000 bytes arrive each second. Counts the frames.
fn endless_form(frames: &Arc<AtomicUsize>) -> HttpBody {
    let frames = Arc::clone(frames);
    let beginning = "--xx\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\n";
    let pieces = stream::unfold(beginning.as_bytes().to_vec(), move |piece| {
        frames.fetch_add(1, Ordering::Relaxed);
        async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Some((Ok(Frame::data(Bytes::from(piece))), vec![b'a'; 1_000]))
        }
    });
    StreamBody::new(pieces).boxed_unsync()
}

#[tokio::test(start_paused = true)]
async fn the_fields_of_a_form_have_one_deadline() {
    let gateway = gateway().await;
    gateway.volume.create_bucket("bucket", &NewBucket::owned_by(&owner())).await.unwrap();
    let (began, frames) = (Instant::now(), Arc::default());
    let answer = ask_with(&gateway, "POST", "/bucket", FORM, endless_form(&frames)).await;
    assert_eq!(answer, (400, Some("RequestTimeout"), "PostObject"));
    assert!(frames.load(Ordering::Relaxed) > 5, "it was read meanwhile");
    assert!(began.elapsed() <= Duration::from_secs(10), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_form_for_a_bucket_that_does_not_exist_is_not_read() {
    let gateway = gateway().await;
    let frames = Arc::default();
    let answer = ask_with(&gateway, "POST", "/bucket", FORM, endless_form(&frames)).await;
    assert_eq!(answer, (404, Some("NoSuchBucket"), "PostObject"));
    assert_eq!(frames.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn a_token_of_a_web_identity_waits_for_memory_and_is_refused_in_time() {
    let gateway = gateway().await;
    let ask = async || {
        let headers = [("content-type", "application/x-www-form-urlencoded")];
        let asked = "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleSessionName=name\
                     &WebIdentityToken=x.y.z";
        let body = Full::new(Bytes::from(asked)).map_err(|never| match never {}).boxed_unsync();
        let began = Instant::now();
        let (_, code, operation) = ask_with(&gateway, "POST", "/", &headers, body).await;
        assert_eq!(operation, "Sts");
        (code, began.elapsed())
    };
    let others = gateway.tokens.try_acquire(gateway.tokens.total()).expect("it is all free");
    let (refused, waited) = ask().await;
    assert_eq!(refused, Some("SlowDown"));
    assert_eq!(waited, Duration::from_secs(5), "it waits for others to end");
    drop(others);
    assert_eq!(ask().await, (Some("InvalidIdentityToken"), Duration::ZERO));
    assert_eq!(gateway.tokens.in_use(), 0, "a request that has ended holds nothing");
    assert!(gateway.tokens.peak() > 0);
}

/// A request by the root user of a view of this process that expects the bucket `ino`.
async fn ask_of(gateway: &Gateway, ino: Ino, method: &str, target: &str) -> (u16, &'static str) {
    let mut request = Request::new(empty_body());
    *request.method_mut() = method.parse().unwrap();
    *request.uri_mut() = target.parse().unwrap();
    request.headers_mut().insert("content-length", HeaderValue::from_static("0"));
    let now = translate::time(gateway.volume().now());
    let verified = Verified::without_signature("root".to_owned(), now);
    let identity = Arc::new(Identity::root("root", Secret::new("a secret")));
    request.extensions_mut().insert(Authenticated { verified, identity: Some(identity) });
    request.extensions_mut().insert(ExpectedBucket(ino));
    let (head, body) = gateway.handle(request).await.into_parts();
    body.collect().await.unwrap();
    (head.status.as_u16(), head.extensions.get::<Served>().unwrap().code.unwrap_or_default())
}

#[tokio::test]
async fn a_view_that_expects_a_bucket_does_not_reach_a_new_one_of_its_name() {
    let gateway = gateway().await;
    let volume = gateway.volume();
    volume.create_bucket("bkt", &NewBucket::owned_by(&owner())).await.unwrap();
    let old = volume.bucket("bkt").await.unwrap().ino;
    assert_eq!(ask_of(&gateway, old, "PUT", "/bkt/before").await, (200, ""));
    assert_eq!(ask_of(&gateway, old, "DELETE", "/bkt/before").await, (204, ""));
    volume.delete_bucket("bkt").await.unwrap();
    volume.create_bucket("bkt", &NewBucket::owned_by(&owner())).await.unwrap();
    let new = volume.bucket("bkt").await.unwrap().ino;
    assert_ne!(new, old);
    assert_eq!(ask_of(&gateway, new, "PUT", "/bkt/kept").await, (200, ""));
    let gone = (404, "NoSuchBucket");
    for (method, target) in [
        ("GET", "/bkt?versions"),
        ("GET", "/bkt/kept"),
        ("PUT", "/bkt/other"),
        ("DELETE", "/bkt/kept"),
        ("GET", "/bkt?uploads"),
    ] {
        assert_eq!(ask_of(&gateway, old, method, target).await, gone, "{method} {target}");
    }
    assert_eq!(ask_of(&gateway, new, "DELETE", "/bkt/kept").await, (204, ""));
    // The new bucket is empty now, so only its number protects it.
    assert_eq!(ask_of(&gateway, old, "DELETE", "/bkt").await, gone);
    let named = NamedBucket { name: b"bkt", ino: Some(old) };
    volume.delete_bucket(named).await.expect_err("another bucket has the name");
    assert_eq!(ask_of(&gateway, new, "DELETE", "/bkt").await, (204, ""));
}

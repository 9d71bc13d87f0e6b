//! Permissions of the steps of a multipart upload, over a volume in memory.

use std::sync::Arc;

use block::MemoryBlocks;
use http::{HeaderMap, HeaderName, HeaderValue, Request};
use http_body_util::{BodyExt, Full};
use identity::{Access, Identity, MasterKey, Secret};
use record::{AccountId, BucketConfig, BucketConfigKind, ObjectHeaders};
use s3::operation::RequestFacts;
use s3::request::Fields;
use store::MemoryStore;
use volume::{FileOwner, NewBucket, NewUpload, UploadId, Volume, VolumeOptions};

use crate::http::{HttpBody, Served};
use crate::{Gateway, Settings};

/// Headers of `CreateMultipartUpload`, each with a condition that they satisfy.
const DEMANDS: [(&[(&str, &str)], &str); 6] = [
    (
        &[("x-amz-server-side-encryption-customer-algorithm", "AES256")],
        r#"{"Null":{"s3:x-amz-server-side-encryption-customer-algorithm":"true"}}"#,
    ),
    (
        &[("x-amz-server-side-encryption", "AES256")],
        r#"{"StringNotEquals":{"s3:x-amz-server-side-encryption":"AES256"}}"#,
    ),
    (
        &[("x-amz-acl", "bucket-owner-full-control")],
        r#"{"StringNotEquals":{"s3:x-amz-acl":"bucket-owner-full-control"}}"#,
    ),
    (
        &[("x-amz-storage-class", "STANDARD")],
        r#"{"StringNotEquals":{"s3:x-amz-storage-class":"STANDARD"}}"#,
    ),
    (
        &[("x-amz-tagging", "team=a&stage=b")],
        r#"{"StringNotEquals":{"s3:RequestObjectTag/team":"a"}}"#,
    ),
    (
        &[
            ("x-amz-object-lock-mode", "GOVERNANCE"),
            ("x-amz-object-lock-retain-until-date", "2100-01-01T00:00:00Z"),
        ],
        r#"{"StringNotEquals":{"s3:object-lock-mode":"GOVERNANCE"}}"#,
    ),
];

async fn gateway() -> Arc<Gateway> {
    let (store, blocks) = (Arc::new(MemoryStore::new()), Arc::new(MemoryBlocks::new()));
    let volume = Volume::open(VolumeOptions::default(), store, blocks).await.unwrap();
    volume.create_bucket("bkt", &NewBucket::owned_by(&owner())).await.unwrap();
    let root = Identity::root("root", Secret::new("a secret"));
    let access = Access::new(root, MasterKey::new([7; MasterKey::BYTES]));
    Gateway::new(volume, Arc::new(access), Settings::default())
}

fn owner() -> FileOwner {
    let (access_key, account) = ("anna".to_owned(), AccountId::MAIN);
    FileOwner { access_key, account, writer: None, uid: 1, gid: 1, umask: 0o022 }
}

/// Allows all clients to write objects, unless a condition holds.
async fn deny_if(volume: &Volume, condition: &str) {
    let statement = |effect: &str, condition: &str| {
        format!(
            r#"{{"Effect":"{effect}","Principal":"*","Action":"s3:PutObject",
                 "Resource":"arn:aws:s3:::bkt/*","Condition":{condition}}}"#
        )
    };
    let (allow, deny) = (statement("Allow", "{}"), statement("Deny", condition));
    let text = format!(r#"{{"Version":"2012-10-17","Statement":[{allow},{deny}]}}"#);
    let config = BucketConfig { bytes: text.into() };
    volume.set_bucket_config("bkt", BucketConfigKind::Policy, Some(&config)).await.unwrap();
}

/// Creates an upload as a request with these headers does.
async fn begin(volume: &Volume, headers: &[(&'static str, &'static str)]) -> UploadId {
    let headers = headers.iter();
    let headers: HeaderMap = headers
        .map(|&(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
        .collect();
    let asked = RequestFacts::upload_headers(Fields::new(&headers, &[]));
    let (headers, checksum) = (ObjectHeaders::default(), None);
    let new = NewUpload { owner: owner(), headers, checksum, asked, encryption: None };
    volume.create_upload("bkt", b"k", new).await.unwrap()
}

/// Sends an unsigned step of an upload. Returns the error code.
async fn step(gateway: &Gateway, method: &str, query: &str, body: String) -> Option<&'static str> {
    let length = body.len().to_string();
    let content = Full::new(body.into()).map_err(|never| match never {}).boxed_unsync();
    let mut request: Request<HttpBody> = Request::new(content);
    *request.method_mut() = method.parse().unwrap();
    *request.uri_mut() = format!("/bkt/k?{query}").parse().unwrap();
    request.headers_mut().insert("host", HeaderValue::from_static("127.0.0.1"));
    request.headers_mut().insert("content-length", length.parse().unwrap());
    let (head, _) = gateway.handle(request).await.into_parts();
    head.extensions.get::<Served>().unwrap().code
}

#[tokio::test(start_paused = true)]
async fn each_upload_step_has_the_condition_values_of_its_creation() {
    for (headers, condition) in DEMANDS {
        let gateway = gateway().await;
        deny_if(gateway.volume(), condition).await;
        let complete = async |id: &UploadId| {
            let tag = "d41d8cd98f00b204e9800998ecf8427e";
            let parts = format!(
                "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{tag}</ETag>\
                 </Part></CompleteMultipartUpload>"
            );
            step(&gateway, "POST", &format!("uploadId={id}"), parts).await
        };
        let part = async |id: &UploadId| {
            step(&gateway, "PUT", &format!("partNumber=1&uploadId={id}"), String::new()).await
        };
        let without = begin(gateway.volume(), &[]).await;
        assert_eq!(part(&without).await, Some("AccessDenied"), "{condition}");
        assert_eq!(complete(&without).await, Some("AccessDenied"), "{condition}");
        let with = begin(gateway.volume(), headers).await;
        assert_eq!(part(&with).await, None, "{condition}");
        assert_eq!(complete(&with).await, None, "{condition}");
        assert_eq!(complete(&with).await, None, "again, once the upload has ended: {condition}");
        let unknown = "00000000000000000000000000000000".parse().unwrap();
        assert_eq!(part(&unknown).await, Some("AccessDenied"), "{condition}");
    }
}

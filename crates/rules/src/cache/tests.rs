use block::MemoryBlocks;
use record::{AccountId, BucketConfig, BucketConfigKind, Versioning};
use s3::cors::CorsConfiguration;
use store::MemoryStore;
use volume::{FileOwner, NewBucket, VolumeOptions};

use super::*;
use crate::bucket::CONFIG_BYTES_MAX;

/// Returns a configuration of `bytes` bytes that begins with this document.
fn long(document: &str, bytes: usize) -> BucketConfig {
    let spaces = " ".repeat(bytes - document.len());
    BucketConfig { bytes: [document, &spaces].concat().into() }
}

#[tokio::test]
async fn the_longest_configurations_are_parsed_once() {
    let (store, blocks) = (Arc::new(MemoryStore::new()), Arc::new(MemoryBlocks::new()));
    let volume = Volume::open(VolumeOptions::default(), store, blocks).await.unwrap();
    let (access_key, account) = ("anna".to_owned(), AccountId::MAIN);
    let owner = FileOwner { access_key, account, writer: None, uid: 1, gid: 1, umask: 0o022 };
    let new = NewBucket { versioning: Versioning::Enabled, ..NewBucket::owned_by(&owner) };
    volume.create_bucket("bkt", &new).await.unwrap();

    let rule = |n: u32| {
        let filter = "<Filter><Prefix>p</Prefix></Filter>";
        let days = "<Expiration><Days>1</Days></Expiration>";
        format!("<Rule><ID>{n}</ID>{filter}<Status>Enabled</Status>{days}</Rule>")
    };
    let rules: String = (0..1_000).map(rule).collect();
    let lifecycle = format!("<LifecycleConfiguration>{rules}</LifecycleConfiguration>");
    let policy = r#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*",
        "Action":"s3:GetObject","Resource":"arn:aws:s3:::bkt/*"}]}"#;
    let cors = "<CORSConfiguration><CORSRule><AllowedMethod>GET</AllowedMethod>\
                <AllowedOrigin>*</AllowedOrigin></CORSRule></CORSConfiguration>";
    for (kind, config) in [
        (BucketConfigKind::Lifecycle, long(&lifecycle, CONFIG_BYTES_MAX)),
        (BucketConfigKind::Policy, long(policy, 20 << 10)),
        (BucketConfigKind::Cors, long(cors, CorsConfiguration::BYTES_MAX)),
    ] {
        volume.set_bucket_config("bkt", kind, Some(&config)).await.unwrap();
    }
    let (cache, name) = (RulesCache::new(), BucketName::parse("bkt").unwrap());
    let first = cache.get(&volume, &name).await.unwrap();
    assert!(first.lifecycle.is_some() && first.policy.is_some() && first.cors.is_some());
    let again = cache.get(&volume, &name).await.unwrap();
    assert!(Arc::ptr_eq(&first, &again), "the second request parses nothing");
}

#[test]
fn a_store_takes_the_longest_configuration_as_one_value() {
    let key = record::key::bucket_config(Ino(1), BucketConfigKind::Lifecycle);
    let value = long("", CONFIG_BYTES_MAX).encode(&key);
    assert!(value.len() <= store::Limits::LEAST.value_bytes, "{} bytes", value.len());
}

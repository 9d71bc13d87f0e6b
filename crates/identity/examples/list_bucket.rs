//! A small view of a volume: it lists a bucket for each sender that may list it.
//!
//! The volume is in memory. The operator creates the access keys `anna`, which may read everything,
//! and `bert`, which has no policy. Each signs a request with SigV4. For example, the request of
//! `anna` returns three keys, and that of `bert` is refused with the status 403.

use std::error::Error;
use std::sync::Arc;

use admin::{Admin, NONCE_BYTES, NewUser, Random, SecretSealer, Surroundings};
use block::MemoryBlocks;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use identity::{AcceptedSignatures, Access, Identity, MasterKey, RequestOrigin, Secret, Sender};
use record::{AccountId, ObjectHeaders, Tag};
use rules::{RulesCache, time};
use s3::BucketName;
use s3::auth::{Credentials, RequestHead};
use s3::operation::Permission;
use store::MemoryStore;
use volume::{
    FileOwner, ListEntry, ListQuery, NewBucket, NewObject, SystemClock, Volume, VolumeOptions,
    WriteCondition,
};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const BUCKET: &str = "photos";
const PATH: &str = "/photos";
const REGION: &str = "us-east-1";
const SERVICE: &str = "s3";

/// The answer to a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Keys(Vec<String>),
    Refused(StatusCode),
}

/// The view: the volume, the access keys in force, and the policies and ACLs of buckets.
pub(crate) struct View {
    volume: Arc<Volume>,
    access: Access,
    rules: RulesCache,
}

impl View {
    /// Opens a volume in memory with the bucket and the two access keys, whose secrets are
    /// `secret-of-anna` and `secret-of-bert`.
    pub(crate) async fn open() -> Result<View> {
        let (store, blocks) = (Arc::new(MemoryStore::new()), Arc::new(MemoryBlocks::new()));
        let volume = Volume::open(VolumeOptions::default(), store.clone(), blocks).await?;
        let operator = Identity::root("operator", Secret::new("secret-of-the-operator"));
        let access = Access::new(operator, MasterKey::new([7; MasterKey::BYTES]));
        let (clock, random) = (Arc::new(SystemClock::new()), Arc::new(MachineRandom));
        let place = "an example".to_owned();
        let admin = Admin::over(store, Surroundings { place, clock, random });
        for (access_key, policies) in [("anna", vec!["readonly".to_owned()]), ("bert", Vec::new())]
        {
            let (account, secret) = (AccountId::MAIN, format!("secret-of-{access_key}"));
            let (secret, policies) = (Some(secret.as_str()), policies.as_slice());
            let (uid, gid, umask) = (1000, 1000, identity::UMASK_DEFAULT);
            let new = NewUser { access_key, account, secret, uid, gid, umask, policies };
            admin.add_user(&new, &Sealer(&access)).await?;
        }
        // The view runs `access.follow` in a task if it serves for longer than this example.
        access.read(&volume).await?;
        let owner = FileOwner {
            access_key: "operator".to_owned(),
            account: AccountId::MAIN,
            writer: None,
            uid: 0,
            gid: 0,
            umask: identity::UMASK_DEFAULT,
        };
        volume.create_bucket(BUCKET, &NewBucket::owned_by(&owner)).await?;
        for key in ["2024/beach.jpg", "2024/dunes.jpg", "index.html"] {
            let body = volume.writer(None, Some(0)).finish().await?;
            let (tag, sums, headers) = (Tag::Md5([0; 16]), Vec::new(), ObjectHeaders::default());
            let new = NewObject { owner: owner.clone(), headers, tag, sums, encryption: None };
            volume.put(BUCKET, key.as_bytes(), body, new, WriteCondition::None).await?;
        }
        Ok(View { volume, access, rules: RulesCache::new() })
    }

    /// Answers a request for the list of the bucket.
    pub(crate) async fn list(&self, headers: &HeaderMap) -> Result<Answer> {
        let now = time(self.volume.now());
        let head = RequestHead {
            method: &Method::GET,
            path: PATH,
            query: "",
            headers,
            authority: None,
            host_bucket: None,
        };
        let accepted = AcceptedSignatures::sigv4(REGION, SERVICE, now);
        let authenticated = Credentials::parse(&head)
            .and_then(|credentials| self.access.authenticate(&credentials, &head, &accepted));
        let authenticated = match authenticated {
            Ok(authenticated) => authenticated,
            Err(fault) => return Ok(Answer::Refused(fault.status())),
        };
        let origin = RequestOrigin { headers, client: None, now };
        let sender = Sender::new(&self.access, &self.volume, &authenticated, origin);
        let bucket = BucketName::parse(BUCKET).map_err(|fault| fault.message)?;
        let rules = self.rules.get(&self.volume, &bucket).await?;
        let permission = Permission::on_bucket("s3:ListBucket", &bucket);
        if !sender.has_permission(&permission, Some(&rules)).await? {
            return Ok(Answer::Refused(StatusCode::FORBIDDEN));
        }
        let query = ListQuery { prefix: Vec::new(), delimiter: None, after: None, limit: 1000 };
        let page = self.volume.list(BUCKET, query).await?;
        let key = |entry| match entry {
            ListEntry::Object { key, .. } | ListEntry::Prefix(key) => String::from_utf8(key),
        };
        Ok(Answer::Keys(page.entries.into_iter().map(key).collect::<std::result::Result<_, _>>()?))
    }

    /// Returns the headers of a request that is signed with this access key and secret.
    pub(crate) fn sign(&self, access_key: &str, secret: &str) -> Result<HeaderMap> {
        let date = sigv4::format_timestamp(time(self.volume.now()));
        let scope = sigv4::CredentialScope::new(&date[..8], REGION, SERVICE);
        let signed = [
            ("host", "localhost"),
            ("x-amz-content-sha256", sigv4::EMPTY_SHA256),
            ("x-amz-date", date.as_str()),
        ];
        let mut canonical = sigv4::CanonicalRequest::builder("GET", PATH, "");
        let mut headers = HeaderMap::new();
        for (name, value) in signed {
            canonical.header(name, value.as_bytes());
            headers.insert(name, HeaderValue::from_str(value)?);
        }
        let canonical = canonical.finish(sigv4::EMPTY_SHA256);
        let key = sigv4::SigningKey::derive(secret, &scope);
        let signature = key.sign(&sigv4::string_to_sign(&date, &scope, &canonical)).to_hex();
        let proof =
            sigv4::authorization(access_key, &scope, canonical.signed_headers(), &signature);
        headers.insert("authorization", HeaderValue::from_str(&proof)?);
        Ok(headers)
    }
}

/// Seals the secrets of new access keys under the master key.
struct Sealer<'a>(&'a Access);

impl SecretSealer for Sealer<'_> {
    fn seal(&self, access_key: &str, secret: &str, nonce: [u8; NONCE_BYTES]) -> Vec<u8> {
        self.0.seal(access_key, &Secret::new(secret), nonce)
    }

    fn is_sealed(&self, access_key: &str, secret: &str, sealed: &[u8]) -> bool {
        self.0.is_sealed(access_key, secret, sealed)
    }
}

/// The random bytes of the machine.
#[derive(Debug)]
struct MachineRandom;

impl Random for MachineRandom {
    fn fill(&self, bytes: &mut [u8]) -> std::result::Result<(), String> {
        getrandom::fill(bytes).map_err(|error| error.to_string())
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let view = View::open().await?;
    for access_key in ["anna", "bert"] {
        let request = view.sign(access_key, &format!("secret-of-{access_key}"))?;
        println!("{access_key}: {:?}", view.list(&request).await?);
    }
    view.volume.close().await;
    Ok(())
}

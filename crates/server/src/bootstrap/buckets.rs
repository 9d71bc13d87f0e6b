//! Buckets with their settings and documents.
//!
//! The gateway of this process checks and writes each document, as it does for an S3 client. For
//! example, a declared lifecycle becomes `PUT /photos?lifecycle` by the operator, if the bucket has
//! another one.

use adminapi::resources::bucket_documents::BucketDocumentKind;
use adminapi::resources::buckets::{BucketJson, BucketPatch, NewBucketJson, VersioningState};
use adminapi::resources::public::PublicAccess;
use adminapi::resources::quota::QuotaJson;
use adminapi::resources::trash::TrashJson;
use record::AccountId;
use serde_json::Value;

use super::document::{Bucket, Placed};
use super::operator::{Operator, Refusal, Write};

/// Creates a bucket if it does not exist, and puts its declared settings in force. Changes nothing
/// if the bucket belongs to another account.
pub(super) async fn put(operator: &Operator<'_>, declared: &Bucket) -> Result<(), Refusal> {
    let Some((known, write)) = created(operator, declared).await? else {
        operator.left_out(&declared.name.value);
        return Ok(());
    };
    let of = Settings { operator, declared, write };
    of.set_versioning(&known).await?;
    let kind = BucketDocumentKind::ObjectLock;
    of.set_document(kind, "the retention", declared.retention.as_ref()).await?;
    of.set_quota(&known).await?;
    of.set_trash(&known).await?;
    of.set_public().await?;
    let documents = [
        (BucketDocumentKind::Policy, "the policy", &declared.policy),
        (BucketDocumentKind::Lifecycle, "the lifecycle", &declared.lifecycle),
        (BucketDocumentKind::Cors, "the CORS rules", &declared.cors),
        (BucketDocumentKind::Tags, "the tags", &declared.tags),
    ];
    for (kind, part, document) in documents {
        of.set_document(kind, part, document.as_ref()).await?;
    }
    Ok(())
}

/// Returns the bucket, which is created if it does not exist. Returns `None` if it belongs to
/// another account: its users decide about its content and its policy.
async fn created(
    operator: &Operator<'_>,
    declared: &Bucket,
) -> Result<Option<(BucketJson, Write)>, Refusal> {
    let Operator { api, actor, .. } = operator;
    let name = &declared.name.value;
    let (known, write) = match api.bucket(actor, name).await {
        Ok(known) => (known, Write::Overwrite),
        Err(error) if error.code == "NoSuchBucket" => {
            let versioning = declared.versioning == Some(VersioningState::Enabled);
            let new = NewBucketJson { versioning, object_lock: declared.object_lock };
            match api.put_bucket(actor, name, new).await {
                Ok(made) => {
                    operator.wrote(Write::Creation, "bucket", name, "bucket");
                    (made, Write::Creation)
                }
                // The operator may not see it.
                Err(error) if error.code == "BucketAlreadyExists" => return Ok(None),
                Err(error) => return Err(Refusal::of("the name")(error)),
            }
        }
        Err(error) => return Err(Refusal::of("the name")(error)),
    };
    if known.account != AccountId::MAIN.to_string() {
        return Ok(None);
    }
    if declared.object_lock && !known.object_lock {
        let why = "The bucket exists without object lock, which only a new bucket can get.";
        return Err(Refusal::of("the field object_lock")(adminapi::ApiError::bad_request(why)));
    }
    Ok(Some((known, write)))
}

/// The settings of one bucket, which are put in force one after the other.
struct Settings<'a> {
    operator: &'a Operator<'a>,
    declared: &'a Bucket,
    /// The reason of the writes.
    write: Write,
}

impl Settings<'_> {
    fn wrote(&self, part: &str) {
        self.operator.wrote(self.write, "bucket", &self.declared.name.value, part);
    }

    async fn set_versioning(&self, known: &BucketJson) -> Result<(), Refusal> {
        let Operator { api, actor, any, .. } = self.operator;
        let Some(wanted) = self.declared.versioning.filter(|wanted| *wanted != known.versioning)
        else {
            return Ok(());
        };
        let patch = BucketPatch { versioning: Some(wanted) };
        let put = api.patch_bucket(actor, &known.name, patch, any).await;
        put.map_err(Refusal::of("the versioning"))?;
        self.wrote("versioning");
        Ok(())
    }

    async fn set_quota(&self, known: &BucketJson) -> Result<(), Refusal> {
        let Operator { api, actor, any, .. } = self.operator;
        let wanted = QuotaJson {
            bytes: self.declared.quota_bytes.map(|size| size.0).or(known.quota.bytes),
            objects: self.declared.quota_objects.or(known.quota.objects),
        };
        if wanted == known.quota {
            return Ok(());
        }
        let put = api.put_quota(actor, &known.name, wanted, any);
        put.await.map_err(Refusal::of("the quota"))?;
        self.wrote("quota");
        Ok(())
    }

    async fn set_trash(&self, known: &BucketJson) -> Result<(), Refusal> {
        let Operator { api, actor, any, .. } = self.operator;
        // 0 is a bucket without a trash.
        let wanted = self.declared.trash_days.map(|days| Some(days).filter(|days| *days > 0));
        let Some(days) = wanted.filter(|days| *days != known.trash_days) else { return Ok(()) };
        let put = api.put_trash(actor, &known.name, TrashJson { days }, any);
        put.await.map_err(Refusal::of("the trash"))?;
        self.wrote("trash");
        Ok(())
    }

    async fn set_public(&self) -> Result<(), Refusal> {
        let Operator { api, actor, any, .. } = self.operator;
        let name = &self.declared.name.value;
        let Some(access) = self.declared.public else { return Ok(()) };
        let known = api.public(actor, name).await.map_err(Refusal::of("the public access"))?;
        if known.access != access {
            let put = api.put_public(actor, name, PublicAccess { access }, any);
            put.await.map_err(Refusal::of("the public access"))?;
            self.wrote("public access");
        }
        Ok(())
    }

    async fn set_document(
        &self,
        kind: BucketDocumentKind,
        part: &'static str,
        document: Option<&Placed<Value>>,
    ) -> Result<(), Refusal> {
        let Operator { api, actor, any, .. } = self.operator;
        let (name, Some(document)) = (&self.declared.name.value, document) else { return Ok(()) };
        let refused = |error| Refusal { part, place: Some(document.place.clone()), error };
        let known = api.document_if_set(actor, name, kind).await.map_err(refused)?;
        if known.is_some_and(|known| agrees(&document.value, &known)) {
            return Ok(());
        }
        let put = api.put_document(actor, name, kind, &document.value, any);
        put.await.map_err(refused)?;
        self.wrote(part);
        Ok(())
    }
}

/// Returns true if a stored document has the declared content. S3 keeps numbers and switches as
/// text, and gives a lifecycle rule without an id a random one.
pub(super) fn agrees(declared: &Value, stored: &Value) -> bool {
    match (declared, stored) {
        (Value::Object(declared), Value::Object(stored)) => {
            let set = declared.iter().filter(|(_, value)| !value.is_null());
            let mut named = set.clone();
            let invented = |name: &String| name == "ID" && !declared.contains_key(name);
            named.all(|(name, value)| stored.get(name).is_some_and(|it| agrees(value, it)))
                && stored.keys().filter(|name| !invented(name)).count() == set.count()
        }
        (Value::Array(declared), Value::Array(stored)) => {
            // The order of rules can decide, for example of CORS rules.
            declared.len() == stored.len()
                && declared.iter().zip(stored).all(|(one, other)| agrees(one, other))
        }
        (Value::String(one), Value::String(other)) => one == other,
        (Value::Number(_) | Value::Bool(_), _) | (_, Value::Number(_) | Value::Bool(_)) => {
            text(declared).is_some_and(|declared| Some(declared) == text(stored))
        }
        (Value::Null, Value::Null) => true,
        (Value::Null | Value::String(_) | Value::Array(_) | Value::Object(_), _) => false,
    }
}

/// Returns the text of a value without parts.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(switch) => Some(switch.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

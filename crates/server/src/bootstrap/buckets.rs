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
use serde_json::Value;

use super::document::{Bucket, Placed};
use super::operator::{Operator, Refusal};

/// Creates a bucket if it does not exist, and puts its declared settings in force.
pub(super) async fn put(operator: &Operator<'_>, declared: &Bucket) -> Result<(), Refusal> {
    let known = created(operator, declared).await?;
    set_versioning(operator, declared, &known).await?;
    let kind = BucketDocumentKind::ObjectLock;
    set_document(operator, declared, kind, "the retention", declared.retention.as_ref()).await?;
    set_quota(operator, declared, &known).await?;
    set_trash(operator, declared, &known).await?;
    set_public(operator, declared).await?;
    let documents = [
        (BucketDocumentKind::Policy, "the policy", &declared.policy),
        (BucketDocumentKind::Lifecycle, "the lifecycle", &declared.lifecycle),
        (BucketDocumentKind::Cors, "the CORS rules", &declared.cors),
        (BucketDocumentKind::Tags, "the tags", &declared.tags),
    ];
    for (kind, part, document) in documents {
        set_document(operator, declared, kind, part, document.as_ref()).await?;
    }
    Ok(())
}

/// Returns the bucket, which is created if it does not exist.
async fn created(operator: &Operator<'_>, declared: &Bucket) -> Result<BucketJson, Refusal> {
    let Operator { api, actor, .. } = operator;
    let name = &declared.name.value;
    let known = match api.bucket(actor, name).await {
        Ok(known) => known,
        Err(error) if error.code == "NoSuchBucket" => {
            let versioning = declared.versioning == Some(VersioningState::Enabled);
            let new = NewBucketJson { versioning, object_lock: declared.object_lock };
            let made = api.put_bucket(actor, name, new).await;
            operator.changed();
            made.map_err(Refusal::of("the name"))?
        }
        Err(error) => return Err(Refusal::of("the name")(error)),
    };
    if declared.object_lock && !known.object_lock {
        let why = "The bucket exists without object lock, which only a new bucket can get.";
        return Err(Refusal::of("the field object_lock")(adminapi::ApiError::bad_request(why)));
    }
    Ok(known)
}

async fn set_versioning(
    operator: &Operator<'_>,
    declared: &Bucket,
    known: &BucketJson,
) -> Result<(), Refusal> {
    let Some(wanted) = declared.versioning.filter(|wanted| *wanted != known.versioning) else {
        return Ok(());
    };
    let patch = BucketPatch { versioning: Some(wanted) };
    let put = operator.api.patch_bucket(operator.actor, &known.name, patch, &operator.any).await;
    put.map_err(Refusal::of("the versioning"))?;
    operator.changed();
    Ok(())
}

async fn set_quota(
    operator: &Operator<'_>,
    declared: &Bucket,
    known: &BucketJson,
) -> Result<(), Refusal> {
    let wanted = QuotaJson {
        bytes: declared.quota_bytes.map(|size| size.0).or(known.quota.bytes),
        objects: declared.quota_objects.or(known.quota.objects),
    };
    if wanted == known.quota {
        return Ok(());
    }
    let put = operator.api.put_quota(operator.actor, &known.name, wanted, &operator.any);
    put.await.map_err(Refusal::of("the quota"))?;
    operator.changed();
    Ok(())
}

async fn set_trash(
    operator: &Operator<'_>,
    declared: &Bucket,
    known: &BucketJson,
) -> Result<(), Refusal> {
    // 0 is a bucket without a trash.
    let wanted = declared.trash_days.map(|days| Some(days).filter(|days| *days > 0));
    let Some(days) = wanted.filter(|days| *days != known.trash_days) else { return Ok(()) };
    let trash = TrashJson { days };
    let put = operator.api.put_trash(operator.actor, &known.name, trash, &operator.any);
    put.await.map_err(Refusal::of("the trash"))?;
    operator.changed();
    Ok(())
}

async fn set_public(operator: &Operator<'_>, declared: &Bucket) -> Result<(), Refusal> {
    let Operator { api, actor, .. } = operator;
    let (name, Some(access)) = (&declared.name.value, declared.public) else { return Ok(()) };
    let known = api.public(actor, name).await.map_err(Refusal::of("the public access"))?;
    if known.access != access {
        let put = api.put_public(actor, name, PublicAccess { access }, &operator.any);
        put.await.map_err(Refusal::of("the public access"))?;
        operator.changed();
    }
    Ok(())
}

async fn set_document(
    operator: &Operator<'_>,
    declared: &Bucket,
    kind: BucketDocumentKind,
    part: &'static str,
    document: Option<&Placed<Value>>,
) -> Result<(), Refusal> {
    let Operator { api, actor, .. } = operator;
    let (name, Some(document)) = (&declared.name.value, document) else { return Ok(()) };
    let refused = |error| Refusal { part, place: Some(document.place.clone()), error };
    let known = api.document_if_set(actor, name, kind).await.map_err(refused)?;
    if known.is_some_and(|known| agrees(&document.value, &known)) {
        return Ok(());
    }
    let put = api.put_document(actor, name, kind, &document.value, &operator.any);
    put.await.map_err(refused)?;
    operator.changed();
    Ok(())
}

/// Returns true if a stored document has the declared content. S3 keeps numbers and switches as text,
/// and gives a lifecycle rule without an id a random one.
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

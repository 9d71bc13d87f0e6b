//! Routing: from method, resource, query and one header to the operation.

use std::collections::BTreeSet;

use http::Method;
use http::header::ALLOW;

use super::{Operation, Row, S3Resource, Scope, Support, TABLE};
use crate::request::{Fields, Query};
use crate::{Code, Fault};

/// Parameters that sign a request, in lower case; `auth` reads them.
const SIGNING: [&str; 11] = [
    "awsaccesskeyid",
    "signature",
    "expires",
    "x-amz-algorithm",
    "x-amz-content-sha256",
    "x-amz-credential",
    "x-amz-date",
    "x-amz-expires",
    "x-amz-security-token",
    "x-amz-signature",
    "x-amz-signedheaders",
];

/// Decides which operation a request is.
///
/// Ignored are `x-id`, parameters that sign the request or stand for a header, and others that
/// begin with `x-`, which S3 leaves to the client's own use. Any other parameter must belong to
/// the operation.
///
/// Faults: `NotImplemented` for an operation or parameter that is unknown or not served;
/// `MethodNotAllowed` with `Allow`; `InvalidArgument` when two parameters select different
/// operations, and for the source of a copy where nothing is copied; `InvalidRequest` for listings
/// of a bucket that are asked of a key; `AccessForbidden` for `OPTIONS` of no bucket.
pub fn route(
    method: &Method,
    resource: &S3Resource,
    query: &Query,
    fields: Fields<'_>,
) -> Result<Operation, Fault> {
    let scope = match resource {
        S3Resource::Service => Scope::Service,
        S3Resource::Bucket(_) => Scope::Bucket,
        S3Resource::Object(..) => Scope::Object,
    };
    if method == Method::OPTIONS {
        // Its query is that of the request that the browser is going to send.
        return match scope {
            Scope::Service => Err(Code::AccessForbidden.into()),
            Scope::Bucket | Scope::Object => Ok(Operation::OptionsObject),
        };
    }
    refuse_misplaced(method, scope, query, fields)?;
    let selector = selector(scope, query)?;
    let row = find(method, scope, selector)?;
    let operation = refine(row.operation, query, fields)?;
    if operation.support() == Support::Refused {
        return Err(refused(operation.name()));
    }
    for parameter in query.iter() {
        let name = parameter.name.as_str();
        if name != selector
            && !is_ignored(name, query, fields)
            && !parameters(operation).contains(&name)
            && !may_carry_more(operation, name, &parameter.value)
        {
            return Err(refused(name));
        }
    }
    Ok(operation)
}

/// The one parameter that selects an operation; empty if there is none.
fn selector(scope: Scope, query: &Query) -> Result<&'static str, Fault> {
    let selects = |name: &str| {
        let mut rows = TABLE.iter().filter(|row| !row.selector.is_empty());
        rows.find(|row| row.scope == scope && row.selector == name).map(|row| row.selector)
    };
    let chosen: BTreeSet<&str> =
        query.iter().filter_map(|parameter| selects(&parameter.name)).collect();
    let first = chosen.first().copied().unwrap_or_default();
    if chosen.len() < 2 {
        return Ok(first);
    }
    let names: Vec<&str> = chosen.into_iter().collect();
    let why = format!("Conflicting query string parameters: {}", names.join(", "));
    Err(Fault::because(Code::InvalidArgument, why)
        .with("ArgumentName", "ResourceType")
        .with("ArgumentValue", first))
}

fn find(method: &Method, scope: Scope, selector: &str) -> Result<&'static Row, Fault> {
    let fits = |row: &&Row| row.scope == scope && row.selector == selector;
    if let Some(row) = TABLE.iter().filter(fits).find(|row| row.method == method.as_str()) {
        return Ok(row);
    }
    let mut allowed: Vec<&str> = Vec::new();
    for row in TABLE.iter().filter(fits) {
        if row.operation.support() != Support::Refused && !allowed.contains(&row.method) {
            allowed.push(row.method);
        }
    }
    // S3 takes what is posted without a parameter for something that it is asked as a whole.
    let kind = match scope {
        Scope::Bucket if method != Method::POST => "BUCKET",
        Scope::Object if method != Method::POST || !selector.is_empty() => "OBJECT",
        Scope::Service | Scope::Bucket | Scope::Object => "SERVICE",
    };
    Err(method_not_allowed(method, kind, &allowed.join(", ")))
}

fn method_not_allowed(method: &Method, kind: &'static str, allowed: &str) -> Fault {
    Fault::new(Code::MethodNotAllowed)
        .with("Method", method.as_str())
        .with("ResourceType", kind)
        .with_header(ALLOW, allowed)
}

/// Refuses what S3 has a sentence of its own for.
fn refuse_misplaced(
    method: &Method,
    scope: Scope,
    query: &Query,
    fields: Fields<'_>,
) -> Result<(), Fault> {
    let copies = match *method {
        Method::GET | Method::HEAD | Method::DELETE => fields.get("x-amz-copy-source")?,
        Method::POST if query.has("uploadId") => fields.get("x-amz-copy-source")?,
        _ => None,
    };
    if let Some(source) = copies {
        let why = "You can only specify a copy source header for copy requests.";
        return Err(Fault::because(Code::InvalidArgument, why)
            .with("ArgumentName", "x-amz-copy-source")
            .with("ArgumentValue", source));
    }
    if scope != Scope::Object || method != Method::GET {
        return Ok(());
    }
    let why = if query.has("uploads") {
        "Key is not expected for the GET method ?uploads subresource"
    } else if query.has("versions") {
        "There is no such thing as the ?versions sub-resource for a key"
    } else {
        return Ok(());
    };
    Err(Fault::because(Code::InvalidRequest, why))
}

/// Distinguishes operations that have the same method and selector.
fn refine(operation: Operation, query: &Query, fields: Fields<'_>) -> Result<Operation, Fault> {
    let copies = fields.has("x-amz-copy-source");
    if operation == Operation::PutObject && query.has("partNumber") {
        let why = "This operation does not accept partNumber without uploadId";
        return Err(Fault::because(Code::InvalidArgument, why)
            .with("ArgumentName", "partNumber")
            .with("ArgumentValue", "partNumber"));
    }
    if operation == Operation::UploadPart && !query.has("partNumber") {
        return Err(method_not_allowed(&Method::PUT, "UPLOAD", "DELETE, POST, GET"));
    }
    if operation == Operation::ListObjectsV2 && query.get("list-type")? != Some("2") {
        let why = "Invalid List Type specified in Request";
        return Err(Fault::because(Code::InvalidArgument, why)
            .with("ArgumentName", "list-type")
            .with("ArgumentValue", query.get("list-type")?.unwrap_or_default()));
    }
    if copies && operation == Operation::PutObject {
        return Ok(Operation::CopyObject);
    }
    if copies && operation == Operation::UploadPart {
        return Ok(Operation::UploadPartCopy);
    }
    Ok(operation)
}

/// An `x-amz-*` parameter counts only in a presigned URL, where it stands for a header; in one of
/// version 2 so do the two other headers that it signs. Elsewhere they are refused, because they
/// would have no effect.
fn is_ignored(name: &str, query: &Query, fields: Fields<'_>) -> bool {
    let name = name.to_ascii_lowercase();
    match name.as_str() {
        name if SIGNING.contains(&name) => true,
        "content-type" | "content-md5" => query.has("AWSAccessKeyId") && fields.is_sent(&name),
        name if name.starts_with("x-amz-") => fields.is_sent(name),
        name => name.starts_with("x-"),
    }
}

/// The query parameters that an operation takes besides its selector.
#[expect(clippy::too_many_lines, reason = "a row for each operation, so that none is forgotten")]
fn parameters(operation: Operation) -> &'static [&'static str] {
    match operation {
        Operation::ListBuckets => &["prefix", "continuation-token", "max-buckets", "bucket-region"],
        Operation::ListObjects => &["prefix", "delimiter", "marker", "max-keys", "encoding-type"],
        // `metadata` is MinIO's; its clients send it to every server, and S3 ignores it.
        Operation::ListObjectsV2 => &[
            "prefix",
            "delimiter",
            "continuation-token",
            "start-after",
            "fetch-owner",
            "max-keys",
            "encoding-type",
            "metadata",
        ],
        Operation::ListObjectVersions => &[
            "prefix",
            "delimiter",
            "key-marker",
            "version-id-marker",
            "max-keys",
            "encoding-type",
            "metadata",
        ],
        Operation::ListMultipartUploads => &[
            "prefix",
            "delimiter",
            "key-marker",
            "upload-id-marker",
            "max-uploads",
            "encoding-type",
        ],
        Operation::GetObject | Operation::HeadObject => &[
            "versionId",
            "partNumber",
            "response-cache-control",
            "response-content-disposition",
            "response-content-encoding",
            "response-content-language",
            "response-content-type",
            "response-expires",
        ],
        Operation::DeleteObject
        | Operation::GetObjectAttributes
        | Operation::GetObjectTagging
        | Operation::PutObjectTagging
        | Operation::DeleteObjectTagging
        | Operation::GetObjectAcl
        | Operation::PutObjectAcl
        | Operation::GetObjectRetention
        | Operation::PutObjectRetention
        | Operation::GetObjectLegalHold
        | Operation::PutObjectLegalHold => &["versionId"],
        // MinIO's clients ask every server so.
        Operation::GetBucketLifecycleConfiguration => &["withUpdatedAt"],
        Operation::UploadPart | Operation::UploadPartCopy => &["partNumber"],
        Operation::ListParts => &["max-parts", "part-number-marker", "encoding-type"],
        Operation::ListBucketInventoryConfigurations
        | Operation::ListBucketAnalyticsConfigurations
        | Operation::ListBucketMetricsConfigurations
        | Operation::ListBucketIntelligentTieringConfigurations => &["continuation-token"],
        Operation::HeadBucket
        | Operation::CreateBucket
        | Operation::DeleteBucket
        | Operation::DeleteObjects
        | Operation::PostObject
        | Operation::GetBucketLocation
        | Operation::GetBucketTagging
        | Operation::PutBucketTagging
        | Operation::DeleteBucketTagging
        | Operation::GetBucketAcl
        | Operation::PutBucketAcl
        | Operation::GetBucketVersioning
        | Operation::PutBucketVersioning
        | Operation::GetBucketPolicy
        | Operation::PutBucketPolicy
        | Operation::DeleteBucketPolicy
        | Operation::GetBucketPolicyStatus
        | Operation::PutBucketLifecycleConfiguration
        | Operation::DeleteBucketLifecycle
        | Operation::GetBucketCors
        | Operation::PutBucketCors
        | Operation::DeleteBucketCors
        | Operation::GetBucketEncryption
        | Operation::PutBucketEncryption
        | Operation::DeleteBucketEncryption
        | Operation::GetBucketReplication
        | Operation::PutBucketReplication
        | Operation::DeleteBucketReplication
        | Operation::GetBucketWebsite
        | Operation::PutBucketWebsite
        | Operation::DeleteBucketWebsite
        | Operation::GetObjectLockConfiguration
        | Operation::PutObjectLockConfiguration
        | Operation::GetBucketOwnershipControls
        | Operation::PutBucketOwnershipControls
        | Operation::DeleteBucketOwnershipControls
        | Operation::GetPublicAccessBlock
        | Operation::PutPublicAccessBlock
        | Operation::DeletePublicAccessBlock
        | Operation::GetBucketNotificationConfiguration
        | Operation::PutBucketNotificationConfiguration
        | Operation::GetBucketLogging
        | Operation::PutBucketLogging
        | Operation::GetBucketAccelerateConfiguration
        | Operation::PutBucketAccelerateConfiguration
        | Operation::GetBucketRequestPayment
        | Operation::PutBucketRequestPayment
        | Operation::PutBucketInventoryConfiguration
        | Operation::DeleteBucketInventoryConfiguration
        | Operation::PutBucketAnalyticsConfiguration
        | Operation::DeleteBucketAnalyticsConfiguration
        | Operation::PutBucketMetricsConfiguration
        | Operation::DeleteBucketMetricsConfiguration
        | Operation::PutBucketIntelligentTieringConfiguration
        | Operation::DeleteBucketIntelligentTieringConfiguration
        | Operation::CreateSession
        | Operation::PutObject
        | Operation::CopyObject
        | Operation::CreateMultipartUpload
        | Operation::CompleteMultipartUpload
        | Operation::AbortMultipartUpload
        | Operation::RenameObject
        | Operation::RestoreObject
        | Operation::SelectObjectContent
        | Operation::GetObjectTorrent
        | Operation::UpdateObjectEncryption
        | Operation::OptionsObject => &[],
    }
}

/// Web pages add `?v=7` to an object's URL to defeat caches, and S3 ignores it. Only reads of
/// objects may carry such a parameter, and only with a value: one without is how new operations
/// look.
fn may_carry_more(operation: Operation, name: &str, value: &str) -> bool {
    matches!(operation, Operation::GetObject | Operation::HeadObject)
        && !value.is_empty()
        && !TABLE.iter().any(|row| row.selector == name)
        && !name.starts_with("response-")
        && !name.to_ascii_lowercase().starts_with("x-amz-")
}

fn refused(what: &str) -> Fault {
    let shown: String = what.chars().take(100).collect();
    Fault::new(Code::NotImplemented).with("Feature", shown)
}

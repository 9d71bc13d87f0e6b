//! Routing: it maps method, resource, query and one header to an operation.
//!
//! For example, `PUT /bucket/key?uploadId=u&partNumber=1` is `UploadPart`, or `UploadPartCopy` with
//! the header `x-amz-copy-source`.

use std::collections::BTreeSet;

use http::Method;
use http::header::ALLOW;

use super::{Operation, Row, S3Resource, Scope, Support, TABLE};
use crate::request::{Fields, Query};
use crate::{Code, Fault};

/// The query parameters of signatures, in lower case; `auth` parses them.
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

/// Returns the operation of a request.
///
/// Some parameters are ignored: `x-id`, parameters of the signature, parameters that replace a
/// header, and others that begin with `x-`, which S3 reserves for the client's own use. Each other
/// parameter must belong to the operation.
///
/// Fails with `NotImplemented` for an unknown or unsupported operation or parameter;
/// `MethodNotAllowed` with `Allow`; `InvalidArgument` if two parameters select different
/// operations, and for a copy source if nothing is copied; `InvalidRequest` for a bucket listing
/// whose path has a key; `AccessForbidden` for `OPTIONS` without a bucket.
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
        // The browser sends the query of the actual request, so the query does not select the
        // operation.
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
    // An unknown parameter may be a feature that the client relies on, so it is refused and not
    // ignored.
    for parameter in query.iter() {
        let name = parameter.name.as_str();
        if name != selector
            && !is_ignored(name, query, fields)
            && !parameters(operation).contains(&name)
            && !accepts_unknown_parameter(operation, name, &parameter.value)
        {
            return Err(refused(name));
        }
    }
    Ok(operation)
}

/// Returns the selector: the one query parameter that selects an operation, such as `acl`; empty if
/// there is none.
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

/// Returns the row of the table of operations for a method and a selector, that is, the query
/// parameter that selects an operation.
fn find(method: &Method, scope: Scope, selector: &str) -> Result<&'static Row, Fault> {
    let fits = |row: &&Row| row.scope == scope && row.selector == selector;
    if let Some(row) = TABLE.iter().filter(fits).find(|row| row.method == method.as_str()) {
        return Ok(row);
    }
    // The response lists the methods that the resource has with this selector.
    let mut allowed: Vec<&str> = Vec::new();
    for row in TABLE.iter().filter(fits) {
        if row.operation.support() != Support::Refused && !allowed.contains(&row.method) {
            allowed.push(row.method);
        }
    }
    // S3 reports a POST without a selector as a request to the service.
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

/// Refuses requests for which S3 has a specific message.
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

/// Returns the operation of a request whose method and selector (the query parameter that selects
/// an operation) fit several operations, such as `PutObject` and `CopyObject`.
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

/// Returns true if a parameter has no influence on the operation. An `x-amz-*` parameter is ignored
/// only in a presigned URL, where it replaces a header; in a SigV2 URL this also holds for the two
/// other headers that it signs. Elsewhere such a parameter is refused, because it would have no
/// effect.
fn is_ignored(name: &str, query: &Query, fields: Fields<'_>) -> bool {
    let name = name.to_ascii_lowercase();
    match name.as_str() {
        name if SIGNING.contains(&name) => true,
        "content-type" | "content-md5" => query.has("AWSAccessKeyId") && fields.is_sent(&name),
        name if name.starts_with("x-amz-") => fields.is_sent(name),
        name => name.starts_with("x-"),
    }
}

/// Returns the query parameters of an operation, without its selector.
#[expect(clippy::too_many_lines, reason = "a row for each operation, so that none is forgotten")]
fn parameters(operation: Operation) -> &'static [&'static str] {
    match operation {
        Operation::ListBuckets => &["prefix", "continuation-token", "max-buckets", "bucket-region"],
        Operation::ListObjects => &["prefix", "delimiter", "marker", "max-keys", "encoding-type"],
        // MinIO's clients send `metadata` to each server, and S3 ignores it.
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
        // MinIO's clients send this parameter to each server.
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

/// Returns true if an operation accepts an unknown parameter. Web pages add `?v=7` to an object's
/// URL to bypass caches, and S3 ignores it. Only reads of objects accept such a parameter, and only
/// with a value: a parameter without a value looks like the selector of a new operation.
fn accepts_unknown_parameter(operation: Operation, name: &str, value: &str) -> bool {
    matches!(operation, Operation::GetObject | Operation::HeadObject)
        && !value.is_empty()
        && !TABLE.iter().any(|row| row.selector == name)
        && !name.starts_with("response-")
        && !name.to_ascii_lowercase().starts_with("x-amz-")
}

/// Returns the fault of an unsupported operation or parameter. The name may come from the network,
/// so only its beginning is repeated.
fn refused(what: &str) -> Fault {
    let shown: String = what.chars().take(100).collect();
    Fault::new(Code::NotImplemented).with("Feature", shown)
}

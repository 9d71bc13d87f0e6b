//! Routing: from method, resource, query and one header to the operation.

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
/// operations; `AccessForbidden` for `OPTIONS` of no bucket.
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
    let selector = selector(scope, query)?;
    let row = find(method, scope, selector)?;
    let operation = refine(row.operation, query, fields)?;
    if operation.support() == Support::Refused {
        return Err(refused(operation.name()));
    }
    for parameter in query.iter() {
        let name = parameter.name.as_str();
        if name != selector
            && !is_ignored(name, fields)
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
    let mut chosen = "";
    for parameter in query.iter() {
        let Some(row) = TABLE.iter().find(|row| {
            row.scope == scope && row.selector == parameter.name && !row.selector.is_empty()
        }) else {
            continue;
        };
        if !chosen.is_empty() && chosen != row.selector {
            return Err(Fault::because(
                Code::InvalidArgument,
                "Two query parameters ask for different operations.",
            )
            .with("ArgumentName", row.selector));
        }
        chosen = row.selector;
    }
    Ok(chosen)
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
    Err(Fault::new(Code::MethodNotAllowed)
        .with("Method", method.as_str())
        .with_header(ALLOW, &allowed.join(", ")))
}

/// Distinguishes operations that have the same method and selector.
fn refine(operation: Operation, query: &Query, fields: Fields<'_>) -> Result<Operation, Fault> {
    let copies = fields.has("x-amz-copy-source");
    match operation {
        Operation::PutObject if query.has("partNumber") => {
            Err(Fault::because(Code::InvalidArgument, "A part number needs an upload id.")
                .with("ArgumentName", "uploadId"))
        }
        Operation::PutObject if copies => Ok(Operation::CopyObject),
        Operation::UploadPart if copies => Ok(Operation::UploadPartCopy),
        Operation::ListObjectsV2 if query.get("list-type")? != Some("2") => {
            Err(Fault::because(Code::InvalidArgument, "The list type is not known.")
                .with("ArgumentName", "list-type"))
        }
        _ => Ok(operation),
    }
}

/// An `x-amz-*` parameter counts only in a presigned URL, where it stands for a header. Elsewhere
/// it is refused, because it would have no effect.
fn is_ignored(name: &str, fields: Fields<'_>) -> bool {
    let name = name.to_ascii_lowercase();
    if SIGNING.contains(&name.as_str()) {
        return true;
    }
    if name.starts_with("x-amz-") { fields.has(&name) } else { name.starts_with("x-") }
}

/// The query parameters that an operation takes besides its selector.
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
        | Operation::PutObjectAcl => &["versionId"],
        Operation::UploadPart | Operation::UploadPartCopy => &["partNumber"],
        Operation::ListParts => &["max-parts", "part-number-marker", "encoding-type"],
        Operation::ListBucketInventoryConfigurations
        | Operation::ListBucketAnalyticsConfigurations
        | Operation::ListBucketMetricsConfigurations
        | Operation::ListBucketIntelligentTieringConfigurations => &["continuation-token"],
        _ => &[],
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

//! The kinds of credentials.

/// How a request is authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthKind {
    /// Not at all.
    Anonymous,
    /// SigV4 in the `Authorization` header.
    Header,
    /// SigV4 in the query: a presigned URL.
    Query,
    /// SigV2 in the query, as boto3 and the AWS CLI presign for their best-known regions.
    QueryV2,
    /// SigV4 in the fields of a form.
    Form,
    /// SigV2 in the fields of a form.
    FormV2,
}

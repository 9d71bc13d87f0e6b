//! The kinds of credentials.

/// The kind of credentials of a request: the version of the signature and its place in the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthKind {
    /// The request has no credentials.
    Anonymous,
    /// SigV4 in the `Authorization` header.
    Header,
    /// SigV4 in the query: a presigned URL.
    Query,
    /// SigV2 in the query. boto3 and the AWS CLI create such presigned URLs for their oldest
    /// regions.
    QueryV2,
    /// SigV4 in the fields of a form.
    Form,
    /// SigV2 in the fields of a form.
    FormV2,
}

//! One entry of the access log: the facts about a request that has ended.
//!
//! For example, the entry of a GET of an old version has the id of this version, which the
//! operation used, even if the client named the version by another spelling. A field that is
//! unknown is `None` and appears as `-` or is absent.

use std::borrow::Cow;
use std::net::IpAddr;
use std::time::Duration;

use serde::{Serialize, Serializer};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// The limit of bytes of the path and query of an entry. Longer ones are cut.
pub const TARGET_BYTES_MAX: usize = 4096;

/// The limit of bytes of other texts that a client chooses, such as its user agent. Longer ones are
/// cut. An object key of S3 is not longer.
pub const TEXT_BYTES_MAX: usize = 1024;

/// The kind of an event in the access log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum EntryKind {
    /// A request to the S3 endpoint.
    #[default]
    S3,
    /// A request to the administration API.
    Admin,
    /// A request to the console.
    Console,
    /// The begin of a mount.
    MountBegin,
    /// The end of a mount.
    MountEnd,
    /// A request that was refused because its sender is unknown or lacks a permission.
    Denied,
}

/// The authenticated sender of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Requester {
    /// The access key that signed the request, or that began the session.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub access_key: String,
    /// The name of the user; `None` for a web identity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The number of the account: 12 digits.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub account: String,
    /// The name of the session, if the credentials are temporary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The issuer and the subject of a web identity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub web_identity: Option<String>,
    /// The name of the sender in policies and in the access log of S3.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arn: Option<String>,
}

/// The facts about one request. Lines have the fields in this order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AuditEntry {
    /// The time at which the head of the request had arrived.
    #[serde(serialize_with = "rfc3339")]
    pub time: OffsetDateTime,
    /// The kind of the event.
    pub kind: EntryKind,
    /// The id that the response has, too.
    pub request_id: String,
    /// The client's address, behind trusted proxies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote: Option<IpAddr>,
    /// The authenticated sender; `None` for an anonymous request and for a failed authentication.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requester: Option<Requester>,
    /// The name of the operation, such as `PutObject`.
    pub operation: &'static str,
    /// The action of a form of the console, such as `disable`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// The names of other resources than bucket and key, such as `("user", "anna")`.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "names")]
    pub resources: Vec<(&'static str, String)>,
    /// The access key that a failed login names. Its sender is not authenticated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claimed_key: Option<String>,
    /// The kind of resource in the access log of S3, such as `OBJECT` or `UPLOADS`.
    #[serde(skip)]
    pub resource: &'static str,
    /// The canonical id of the bucket's owner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bucket_owner: Option<String>,
    /// The bucket that the request names. It may not exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bucket: Option<String>,
    /// The object key that the request names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The version that the operation used, or that a failed request names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version_id: Option<String>,
    /// The HTTP method.
    pub method: String,
    /// The path and query as they arrived, without secrets: see [`redacted`](crate::redacted).
    pub target: String,
    /// The version of HTTP, such as `HTTP/1.1`.
    pub protocol: &'static str,
    /// The HTTP status.
    pub status: u16,
    /// The error code; `None` for a success.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<Cow<'static, str>>,
    /// Bytes of the request's body that arrived.
    pub bytes_in: u64,
    /// Bytes of the response's body that were sent.
    pub bytes_out: u64,
    /// The size of the object that the operation read or wrote, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object_size: Option<u64>,
    /// The time from the end of the head to the end of the response.
    #[serde(rename = "total_us", serialize_with = "micros")]
    pub total: Duration,
    /// The time from the last byte of the request to the first byte of the response.
    #[serde(rename = "turn_around_us", serialize_with = "micros")]
    pub turn_around: Duration,
    /// True if the client has received the whole response.
    pub whole: bool,
    /// The header `Referer`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub referer: Option<String>,
    /// The header `User-Agent`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_agent: Option<String>,
    /// The host that the client named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The version of the signature: `SigV4` or `SigV2`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signature: Option<&'static str>,
    /// The place of the credentials: `AuthHeader`, `QueryString`, `Form`, `Token` or `Login`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authentication: Option<&'static str>,
    /// The version of TLS, such as `1.3`; `None` without TLS and behind a proxy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<&'static str>,
    /// The cipher suite of TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cipher: Option<&'static str>,
    /// The region of the endpoint.
    #[serde(skip)]
    pub region: String,
}

impl Default for AuditEntry {
    fn default() -> AuditEntry {
        AuditEntry {
            time: OffsetDateTime::UNIX_EPOCH,
            kind: EntryKind::default(),
            request_id: String::new(),
            remote: None,
            requester: None,
            operation: "",
            action: None,
            resources: Vec::new(),
            claimed_key: None,
            resource: "",
            bucket_owner: None,
            bucket: None,
            key: None,
            version_id: None,
            method: String::new(),
            target: String::new(),
            protocol: "",
            status: 0,
            code: None,
            bytes_in: 0,
            bytes_out: 0,
            object_size: None,
            total: Duration::ZERO,
            turn_around: Duration::ZERO,
            whole: true,
            referer: None,
            user_agent: None,
            host: None,
            signature: None,
            authentication: None,
            tls: None,
            cipher: None,
            region: String::new(),
        }
    }
}

impl AuditEntry {
    /// Returns the memory of the entry in bytes, with its texts.
    pub(crate) fn memory(&self) -> usize {
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let of_requester = self.requester.as_ref().map_or(0, |requester| {
            requester.access_key.len()
                + requester.account.len()
                + text(&requester.user)
                + text(&requester.session)
                + text(&requester.web_identity)
                + text(&requester.arn)
        });
        let texts = [
            &self.bucket_owner,
            &self.bucket,
            &self.key,
            &self.version_id,
            &self.referer,
            &self.user_agent,
            &self.host,
            &self.action,
            &self.claimed_key,
        ];
        let of_resources = self.resources.iter().map(|(_, name)| name.len());
        size_of::<AuditEntry>()
            + of_requester
            + of_resources.sum::<usize>()
            + self.resources.len() * size_of::<(&str, String)>()
            + self.request_id.len()
            + self.method.len()
            + self.target.len()
            + texts.into_iter().map(text).sum::<usize>()
    }
}

/// Returns the text, cut at a character boundary so that it has at most `bytes_max` bytes.
pub fn shortened(mut text: String, bytes_max: usize) -> String {
    if text.len() > bytes_max {
        text.truncate(text.floor_char_boundary(bytes_max));
    }
    text
}

fn rfc3339<S: Serializer>(time: &OffsetDateTime, serializer: S) -> Result<S::Ok, S::Error> {
    let text = time.format(&Rfc3339).map_err(serde::ser::Error::custom)?;
    serializer.serialize_str(&text)
}

/// Writes pairs of a kind and a name as an object.
fn names<S: Serializer>(
    pairs: &[(&'static str, String)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|(kind, name)| (kind, name)))
}

fn micros<S: Serializer>(span: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(span.as_micros()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;

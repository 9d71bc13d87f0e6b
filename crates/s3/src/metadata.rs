//! Object metadata: content headers and user metadata.
//!
//! Invariant: only the headers in this module are stored, so no request can set internal
//! attributes. For example, a PUT with `Cache-Control: no-store` and `x-amz-meta-color: blue`
//! stores both, and ignores `X-Custom: 1`.

use http::HeaderName;

use crate::fields::{Fields, invalid};
use crate::{Code, Fault};

const USER_PREFIX: &str = "x-amz-meta-";
const WEBSITE_REDIRECT: &str = "x-amz-website-redirect-location";
const STORAGE_CLASS: &str = "x-amz-storage-class";

/// The default storage class, which is not stored with an object.
pub const STANDARD: &str = "STANDARD";

/// S3's other storage classes, in alphabetical order.
pub const STORAGE_CLASSES: [&str; 11] = [
    "DEEP_ARCHIVE",
    "EXPRESS_ONEZONE",
    "FSX_OPENZFS",
    "GLACIER",
    "GLACIER_IR",
    "INTELLIGENT_TIERING",
    "ONEZONE_IA",
    "OUTPOSTS",
    "REDUCED_REDUNDANCY",
    "SNOW",
    "STANDARD_IA",
];

/// The content headers and the user metadata of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// `Content-Type`.
    pub content_type: Option<String>,
    /// `Cache-Control`.
    pub cache_control: Option<String>,
    /// `Content-Disposition`.
    pub content_disposition: Option<String>,
    /// `Content-Encoding`, without `aws-chunked`, which is the framing of the request body and not
    /// a property of the object.
    pub content_encoding: Option<String>,
    /// `Content-Language`.
    pub content_language: Option<String>,
    /// `Expires`, as sent.
    pub expires: Option<String>,
    /// `x-amz-website-redirect-location`: a path in the bucket, or a URL.
    pub website_redirect: Option<String>,
    /// `x-amz-storage-class`, if it is not `STANDARD`. It is only a label: all objects are stored
    /// in the same way.
    pub storage_class: Option<String>,
    /// User metadata: lower-case names without `x-amz-meta-`, sorted, with their values.
    pub user: Vec<(String, String)>,
}

impl Metadata {
    /// The maximum total size of user metadata, names and values, in bytes.
    pub const USER_BYTES_MAX: usize = 2048;

    /// Parses the headers of a request that creates an object.
    ///
    /// Fails with `MetadataTooLarge`, `InvalidStorageClass` or `InvalidRedirectLocation`; or with
    /// `InvalidArgument` for a value that is not text and for a name that is not a valid header
    /// name, because no response could return it.
    pub fn parse(fields: Fields<'_>) -> Result<Metadata, Fault> {
        let mut user = Vec::new();
        let mut user_bytes = 0;
        for header in fields.names(USER_PREFIX) {
            let name = header.strip_prefix(USER_PREFIX).unwrap_or_default();
            if name.is_empty() {
                return Err(invalid(header, "A metadata name is empty."));
            }
            if HeaderName::from_bytes(header.as_bytes()).is_err() {
                return Err(invalid(header, "The metadata name is not a valid header name."));
            }
            // Repeated user metadata is joined with commas, as S3 does.
            let value = fields.joined(header)?.unwrap_or_default();
            // S3 counts names and values together.
            user_bytes += name.len() + value.len();
            user.push((name.to_owned(), value));
        }
        if user_bytes > Metadata::USER_BYTES_MAX {
            return Err(Fault::new(Code::MetadataTooLarge)
                .with("Size", user_bytes.to_string())
                .with("MaxSizeAllowed", Metadata::USER_BYTES_MAX.to_string()));
        }
        let text = |name: &str| -> Result<_, Fault> {
            Ok(fields.joined(name)?.filter(|value| !value.is_empty()))
        };
        Ok(Metadata {
            content_type: text("content-type")?,
            cache_control: text("cache-control")?,
            content_disposition: text("content-disposition")?,
            content_encoding: text("content-encoding")?.and_then(|value| stored_encoding(&value)),
            content_language: text("content-language")?,
            expires: text("expires")?,
            website_redirect: website_redirect(fields)?,
            storage_class: storage_class(fields)?,
            user,
        })
    }

    /// Returns true if S3 would store this value of a content header unchanged. `name` is in lower
    /// case. Mounts can set content headers as extended attributes, and the same rules apply to
    /// them.
    pub fn accepts(name: &str, value: &str) -> bool {
        match name {
            WEBSITE_REDIRECT => is_redirect(value),
            STORAGE_CLASS => STORAGE_CLASSES.contains(&value),
            "content-encoding" => stored_encoding(value).as_deref() == Some(value),
            _ => !value.is_empty(),
        }
    }

    /// Returns the response headers that a read of the object sends for its metadata: lower-case
    /// names with their values.
    pub fn headers(&self) -> Vec<(String, &str)> {
        let content = [
            ("content-type", &self.content_type),
            ("cache-control", &self.cache_control),
            ("content-disposition", &self.content_disposition),
            ("content-encoding", &self.content_encoding),
            ("content-language", &self.content_language),
            ("expires", &self.expires),
            (WEBSITE_REDIRECT, &self.website_redirect),
            (STORAGE_CLASS, &self.storage_class),
        ];
        let content = content.into_iter().filter_map(|(name, value)| {
            // A stored value can come from a mount or an older version of the gateway, so the rules
            // are applied again.
            let value = value.as_deref().filter(|value| Metadata::accepts(name, value))?;
            Some((name.to_owned(), value))
        });
        let user =
            self.user.iter().map(|(name, value)| (format!("{USER_PREFIX}{name}"), value.as_str()));
        content.chain(user).collect()
    }
}

fn website_redirect(fields: Fields<'_>) -> Result<Option<String>, Fault> {
    let Some(place) = fields.get(WEBSITE_REDIRECT)?.filter(|place| !place.is_empty()) else {
        return Ok(None);
    };
    if is_redirect(place) {
        Ok(Some(place.to_owned()))
    } else {
        Err(Code::InvalidRedirectLocation.into())
    }
}

fn is_redirect(place: &str) -> bool {
    ["/", "http://", "https://"].iter().any(|prefix| place.starts_with(prefix))
}

fn storage_class(fields: Fields<'_>) -> Result<Option<String>, Fault> {
    match fields.get(STORAGE_CLASS)? {
        // The default class is not stored.
        None | Some("" | STANDARD) => Ok(None),
        Some(class) if STORAGE_CLASSES.contains(&class) => Ok(Some(class.to_owned())),
        Some(class) => {
            Err(Fault::new(Code::InvalidStorageClass).with("StorageClassRequested", class))
        }
    }
}

/// Returns the value of `Content-Encoding` without `aws-chunked`, which is the framing of the
/// request body; `None` if nothing else remains.
fn stored_encoding(value: &str) -> Option<String> {
    let is_framing = |coding: &&str| coding.eq_ignore_ascii_case("aws-chunked");
    let codings: Vec<&str> =
        value.split(',').map(str::trim).filter(|coding| !coding.is_empty()).collect();
    if !codings.iter().any(is_framing) {
        return Some(value.to_owned());
    }
    // `aws-chunked` describes the framing of the request body, not the stored object.
    let kept: Vec<&str> = codings.into_iter().filter(|coding| !is_framing(coding)).collect();
    (!kept.is_empty()).then(|| kept.join(","))
}

pub use encoded_words::mail_safe;

mod encoded_words;

#[cfg(test)]
mod tests;

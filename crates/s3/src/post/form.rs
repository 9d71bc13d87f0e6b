//! The fields of a form, up to its file.

use http::{HeaderMap, HeaderName, HeaderValue};

use super::malformed;
use super::part::FilePart;
use crate::Fault;
use crate::fields::invalid;

/// The maximum length in bytes of the value of a form field, after the file name has replaced
/// `${filename}`.
pub const FIELD_BYTES_MAX: usize = 64 << 10;

/// The variable in the value of a form field that is replaced by the file's name.
const FILENAME: &str = "${filename}";

/// Fields in which `${filename}` is not replaced by the name of the file, because they are signed
/// or are signatures.
const VERBATIM: [&str; 8] = [
    "awsaccesskeyid",
    "policy",
    "signature",
    "x-amz-algorithm",
    "x-amz-credential",
    "x-amz-date",
    "x-amz-security-token",
    "x-amz-signature",
];

/// Form fields that have the meaning of the `PutObject` header with the same name.
const HEADERS: [&str; 12] = [
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-md5",
    "content-type",
    "expires",
    "x-amz-sdk-checksum-algorithm",
    "x-amz-storage-class",
    "x-amz-tagging",
    "x-amz-website-redirect-location",
    "x-amz-write-offset-bytes",
];

/// Prefixes of further fields with the meaning of a header.
const HEADER_PREFIXES: [&str; 6] = [
    META,
    "x-amz-acl",
    "x-amz-checksum-",
    "x-amz-grant-",
    "x-amz-object-lock-",
    "x-amz-server-side-encryption",
];

const META: &str = "x-amz-meta-";
const IGNORED: &str = "x-ignore-";

/// The fields before the file of a form: lower-case names, each once, with the file name inserted.
///
/// Invariant: the values that the policy is checked against are the values that the upload uses,
/// except white space around values that count as headers. There is no second interpretation of the
/// fields. For example, for a file `cat.jpg` the key `up/${filename}` is `up/cat.jpg` both for the
/// policy and for the upload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Form {
    fields: Vec<(String, String)>,
}

impl Form {
    /// Creates a form from the fields before its file. Values of the same user metadata are joined
    /// with commas, as for headers.
    ///
    /// Fails with `InvalidArgument` for any other repeated field, or with `MalformedPOSTRequest` if
    /// the file name makes a value longer than 64 KiB.
    pub fn new(fields: Vec<(String, String)>, file: &FilePart) -> Result<Form, Fault> {
        let filename = base_name(file.filename.as_deref().unwrap_or_default());
        let mut form = Form::default();
        for (name, value) in fields {
            let name = name.to_ascii_lowercase();
            let value = if VERBATIM.contains(&name.as_str()) {
                value
            } else {
                with_filename(value, filename)?
            };
            // A repeated field is refused, because the policy could check one value and the upload
            // use the other.
            let known = form.fields.iter_mut().find(|(other, _)| *other == name);
            match known {
                None => form.fields.push((name, value)),
                Some((_, first)) if name.starts_with(META) => {
                    first.push(',');
                    first.push_str(&value);
                }
                // Fields with this prefix have no effect, so a repetition is harmless.
                Some(_) if name.starts_with(IGNORED) => {}
                Some(_) => return Err(invalid(&name, "A form field is given more than once.")),
            }
        }
        Ok(form)
    }

    /// Returns the value of a field. `name` is in lower case.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// Returns true if the form has the field, even with an empty value.
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Returns the names of the fields, in lower case.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(|(name, _)| name.as_str())
    }

    /// Returns the fields that have the meaning of `PutObject` headers. All other fields have no
    /// effect on the object.
    ///
    /// Fails with `InvalidArgument` for a name or value that is not valid in a header, and for an
    /// ACL under both of its names.
    pub fn headers(&self) -> Result<HeaderMap, Fault> {
        let mut headers = HeaderMap::new();
        for (field, value) in &self.fields {
            // S3's forms call this field `acl`.
            let name = if field == "acl" { "x-amz-acl" } else { field.as_str() };
            let counts = HEADERS.contains(&name)
                || HEADER_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
            if !counts {
                continue;
            }
            let bytes = value.trim_matches([' ', '\t']).as_bytes();
            let (Ok(header), Ok(value)) =
                (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_bytes(bytes))
            else {
                return Err(invalid(field, "A form field is not a valid header."));
            };
            // `acl` and `x-amz-acl` are the same header.
            if headers.insert(header, value).is_some() {
                return Err(invalid(field, "A form field is given more than once."));
            }
        }
        Ok(headers)
    }
}

/// Returns a file's name without the path that some browsers send.
fn base_name(filename: &str) -> &str {
    filename.rsplit(['/', '\\']).next().unwrap_or_default()
}

/// Replaces `${filename}` in the value of a field by the name of the file. Fails if the result is
/// longer than `FIELD_BYTES_MAX`. The length is checked before, so that many variables cannot
/// multiply a long name.
fn with_filename(value: String, filename: &str) -> Result<String, Fault> {
    let places = value.matches(FILENAME).count();
    if places == 0 {
        return Ok(value);
    }
    let bytes = (value.len() - places * FILENAME.len()) + places.saturating_mul(filename.len());
    if bytes > FIELD_BYTES_MAX {
        return Err(malformed());
    }
    Ok(value.replace(FILENAME, filename))
}

//! The fields of a form, once its file begins.

use http::{HeaderMap, HeaderName, HeaderValue};

use super::malformed;
use super::part::FilePart;
use crate::Fault;
use crate::fields::invalid;

/// The longest value of a field, in bytes, with the file's name put in.
pub const FIELD_BYTES_MAX: usize = 64 << 10;

/// Stands for the file's name.
const FILENAME: &str = "${filename}";

/// Fields in which nothing is put in: they are signed, or are signatures.
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

/// Fields that count as headers of the same name.
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

/// What the names of more such fields begin with.
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

/// The fields before a form's file: names in lower case, each once, with the file's name put in.
///
/// What a policy is checked against is what is used, but for white space around what counts as a
/// header: there is no other reading of the fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Form {
    fields: Vec<(String, String)>,
}

impl Form {
    /// Takes the fields that came before a file. Values of the same metadata are joined, as those
    /// of a header are.
    ///
    /// Faults: `InvalidArgument` for any other field that is given twice; `MalformedPOSTRequest`
    /// when a value grows beyond 64 KiB by the file's name.
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
            let known = form.fields.iter_mut().find(|(other, _)| *other == name);
            match known {
                None => form.fields.push((name, value)),
                Some((_, first)) if name.starts_with(META) => {
                    first.push(',');
                    first.push_str(&value);
                }
                Some(_) if name.starts_with(IGNORED) => {}
                Some(_) => return Err(invalid(&name, "A form field is given more than once.")),
            }
        }
        Ok(form)
    }

    /// The value of a field. The name is in lower case.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// Whether a field is there, if only an empty one.
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Names in lower case.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(|(name, _)| name.as_str())
    }

    /// The fields that say what the headers of a `PutObject` say. All others have no effect there.
    ///
    /// Fault: `InvalidArgument` for a name or a value that no header can have, and for an ACL that
    /// is given under both of its names.
    pub fn headers(&self) -> Result<HeaderMap, Fault> {
        let mut headers = HeaderMap::new();
        for (field, value) in &self.fields {
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
                return Err(invalid(field, "A form field cannot be a header."));
            };
            if headers.insert(header, value).is_some() {
                return Err(invalid(field, "A form field is given more than once."));
            }
        }
        Ok(headers)
    }
}

/// A file's name without the path that some browsers send with it.
fn base_name(filename: &str) -> &str {
    filename.rsplit(['/', '\\']).next().unwrap_or_default()
}

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

//! Cross-origin resource sharing (CORS): it selects the web origins whose pages may read a bucket
//! in a browser.
//!
//! A [`CorsConfiguration`] is a list of rules, and the first rule that matches decides. For
//! example, a rule with the origin `https://*.example.com` and the method `GET` lets pages of these
//! hosts read objects.
//!
//! Invariant: the results are header values, so neither the configuration nor a page can inject a
//! line break.
//!
//! CORS does not protect a bucket, because only browsers honour it. `auth` and `policy` decide who
//! may read, with or without CORS.

mod pattern;
mod respond;
#[cfg(test)]
mod tests;

pub use respond::{CorsHeaders, CorsResource, Preflight};

use pattern::Pattern;

use crate::xml::{Element, Writer, XmlLimits, is_writable, malformed};
use crate::{Code, Fault};

/// The CORS configuration of one bucket: 1 to 100 rules that allow web pages of other origins to
/// use the bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CorsConfiguration {
    rules: Vec<CorsRule>,
}

/// A rule of a CORS configuration: it allows pages of some origins to use some methods and headers.
/// It has at least one origin and one method.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CorsRule {
    id: Option<String>,
    origins: Vec<Pattern>,
    methods: Vec<CorsMethod>,
    headers: Vec<Pattern>,
    /// The names of response headers that a page may read, as the document has them.
    exposed: Vec<String>,
    /// The time for which a browser may cache the preflight response. S3 accepts negative values,
    /// too; browsers then do not cache it.
    max_age_seconds: Option<i32>,
}

/// An HTTP method that a CORS rule can allow to web pages. Names are in upper case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CorsMethod {
    /// `GET`.
    Get,
    /// `PUT`.
    Put,
    /// `POST`.
    Post,
    /// `DELETE`.
    Delete,
    /// `HEAD`.
    Head,
}

impl CorsMethod {
    const ALL: [CorsMethod; 5] =
        [CorsMethod::Get, CorsMethod::Put, CorsMethod::Post, CorsMethod::Delete, CorsMethod::Head];

    /// Returns the name of the HTTP method, for example `GET`.
    pub const fn as_str(self) -> &'static str {
        match self {
            CorsMethod::Get => "GET",
            CorsMethod::Put => "PUT",
            CorsMethod::Post => "POST",
            CorsMethod::Delete => "DELETE",
            CorsMethod::Head => "HEAD",
        }
    }

    /// Returns the method with this name, if a rule can allow it.
    pub fn named(name: &str) -> Option<CorsMethod> {
        CorsMethod::ALL.into_iter().find(|method| method.as_str() == name)
    }
}

impl CorsConfiguration {
    /// The maximum number of CORS rules of a bucket.
    pub const RULES_MAX: usize = 100;

    /// The maximum size of the document of a CORS configuration in bytes.
    pub const BYTES_MAX: usize = 64 << 10;

    /// The maximum length of the id of a CORS rule in characters.
    pub const ID_CHARACTERS_MAX: usize = 255;

    /// Parses the document of `PutBucketCors`.
    ///
    /// Fails with `InvalidRequest` for a rule that S3 does not accept; `MalformedXML`; or
    /// `MaxMessageLengthExceeded` for more than 64 KiB.
    pub fn parse(body: &[u8]) -> Result<CorsConfiguration, Fault> {
        // S3's limit of the document is smaller than that of other documents.
        let limits = XmlLimits { bytes: CorsConfiguration::BYTES_MAX, ..XmlLimits::SMALL };
        let root = Element::parse(body, "CORSConfiguration", limits)?;
        let rules = root.children().iter().map(CorsRule::parse).collect::<Result<Vec<_>, _>>()?;
        if rules.is_empty() {
            return Err(malformed("CORSRule is missing"));
        }
        if rules.len() > CorsConfiguration::RULES_MAX {
            return Err(refuse(
                "The number of CORS rules should not exceed allowed limit of 100 rules.".to_owned(),
            ));
        }
        Ok(CorsConfiguration { rules })
    }

    /// Returns the document of `GetBucketCors`.
    pub fn to_xml(&self) -> String {
        let mut out = Writer::document();
        out.root("CORSConfiguration", |out| {
            for rule in &self.rules {
                out.element("CORSRule", |out| rule.write(out));
            }
        });
        out.finish()
    }
}

impl CorsRule {
    fn parse(element: &Element) -> Result<CorsRule, Fault> {
        if element.name() != "CORSRule" {
            return Err(malformed("CORSConfiguration contains an element other than CORSRule"));
        }
        let mut rule = CorsRule {
            id: element.value("ID")?.map(str::to_owned),
            origins: Vec::new(),
            methods: Vec::new(),
            headers: Vec::new(),
            exposed: Vec::new(),
            max_age_seconds: element.value("MaxAgeSeconds")?.map(max_age).transpose()?,
        };
        for child in element.children() {
            let text = child.text().trim();
            // A character that XML cannot represent could not be returned by `GetBucketCors`.
            if !text.chars().all(is_writable) {
                return Err(malformed("the text contains a character that XML does not allow"));
            }
            match child.name() {
                "AllowedOrigin" => rule.origins.push(origin(text)?),
                "AllowedMethod" => rule.methods.push(method(text)?),
                // An empty element allows nothing and cannot be sent to a browser.
                "AllowedHeader" | "ExposeHeader" if text.is_empty() => {}
                "AllowedHeader" => rule.headers.push(allowed_header(text)?),
                "ExposeHeader" => rule.exposed.push(exposed_header(text)?),
                // These are parsed above, because each may occur only once.
                "ID" | "MaxAgeSeconds" => {}
                _ => return Err(malformed("a CORSRule contains an unknown element")),
            }
        }
        if rule.origins.is_empty() || rule.methods.is_empty() {
            return Err(malformed("a CORSRule needs an AllowedOrigin and an AllowedMethod"));
        }
        let length = rule.id.as_ref().map_or(0, |id| id.chars().count());
        if length > CorsConfiguration::ID_CHARACTERS_MAX {
            return Err(refuse(
                "The ID length should not exceed allowed limit of 255 characters.".to_owned(),
            ));
        }
        Ok(rule)
    }

    fn write(&self, out: &mut Writer) {
        out.optional("ID", self.id.as_deref());
        for origin in &self.origins {
            out.text("AllowedOrigin", origin.as_str());
        }
        for method in &self.methods {
            out.text("AllowedMethod", method.as_str());
        }
        for header in &self.headers {
            out.text("AllowedHeader", header.as_str());
        }
        for header in &self.exposed {
            out.text("ExposeHeader", header);
        }
        if let Some(seconds) = self.max_age_seconds {
            out.text("MaxAgeSeconds", &seconds.to_string());
        }
    }
}

fn max_age(text: &str) -> Result<i32, Fault> {
    text.parse().map_err(|_| malformed("MaxAgeSeconds is not a number"))
}

fn origin(text: &str) -> Result<Pattern, Fault> {
    // The pattern is compared with a header value, which has no control characters.
    if text.chars().any(char::is_control) {
        return Err(malformed("an AllowedOrigin contains control characters"));
    }
    Pattern::parse(text).ok_or_else(|| {
        refuse(format!("AllowedOrigin \"{text}\" can not have more than one wildcard."))
    })
}

fn method(text: &str) -> Result<CorsMethod, Fault> {
    CorsMethod::named(text).ok_or_else(|| {
        refuse(format!(
            "Found unsupported HTTP method in CORS config. Unsupported method is {text}"
        ))
    })
}

fn allowed_header(text: &str) -> Result<Pattern, Fault> {
    check_name(text)?;
    Pattern::parse(text).ok_or_else(|| {
        refuse(format!("AllowedHeader \"{text}\" can not have more than one wildcard."))
    })
}

fn exposed_header(text: &str) -> Result<String, Fault> {
    check_name(text)?;
    if text.contains('*') {
        return Err(refuse(format!(
            "ExposeHeader \"{text}\" contains wildcard. We currently do not support wildcard for \
             ExposeHeader."
        )));
    }
    Ok(text.to_owned())
}

/// Checks a header name. S3 calls both kinds of headers `AllowedHeader` in this message.
fn check_name(text: &str) -> Result<(), Fault> {
    if is_token(text) {
        return Ok(());
    }
    Err(refuse(format!("AllowedHeader \"{text}\" contains invalid character.")))
}

/// Returns true if a text is a valid header name, possibly with wildcards.
fn is_token(text: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(legal)
}

fn refuse(why: String) -> Fault {
    Fault::because(Code::InvalidRequest, why)
}

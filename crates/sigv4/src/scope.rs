//! Credential scopes: the day, region and service of a signing key.

/// The last part of each credential scope of SigV4.
const TERMINATOR: &str = "aws4_request";

/// The day, region and service for which a signature is valid, and a terminator:
/// `20130524/us-east-1/s3/aws4_request`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CredentialScope {
    text: String,
    /// The offsets in bytes at which the day, the region and the service end in `text`.
    date_end: usize,
    region_end: usize,
    service_end: usize,
}

impl CredentialScope {
    /// Returns the credential scope of a day, a region and a service. `date` has eight digits:
    /// `20130524`.
    pub fn new(date: &str, region: &str, service: &str) -> CredentialScope {
        let text = [date, "/", region, "/", service, "/", TERMINATOR].concat();
        let date_end = date.len();
        let region_end = date_end + 1 + region.len();
        let service_end = region_end + 1 + service.len();
        CredentialScope { text, date_end, region_end, service_end }
    }

    /// Splits a credential scope into day, region, service and terminator without checking them.
    /// Returns `None` if the text has more or fewer than these four parts.
    pub fn parse(text: &str) -> Option<CredentialScope> {
        // The region and the service are not checked here: the verifier reports a wrong part with
        // its own message.
        let mut slashes = text.match_indices('/').map(|(at, _)| at);
        let (date_end, region_end, service_end) =
            (slashes.next()?, slashes.next()?, slashes.next()?);
        if slashes.next().is_some() {
            return None;
        }
        Some(CredentialScope { text: text.to_owned(), date_end, region_end, service_end })
    }

    /// Returns the whole scope, as in a string to sign.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the day of the scope, as text.
    pub fn date(&self) -> &str {
        &self.text[..self.date_end]
    }

    /// Returns the region of the scope, for example `us-east-1`.
    pub fn region(&self) -> &str {
        &self.text[self.date_end + 1..self.region_end]
    }

    /// Returns the service of the scope, for example `s3`.
    pub fn service(&self) -> &str {
        &self.text[self.region_end + 1..self.service_end]
    }

    /// Returns the terminator, that is, the part after the service. It should be `aws4_request`.
    pub fn terminator(&self) -> &str {
        &self.text[self.service_end + 1..]
    }

    /// Returns true if the terminator is that of SigV4, `aws4_request`.
    pub fn is_terminated(&self) -> bool {
        self.terminator() == TERMINATOR
    }
}

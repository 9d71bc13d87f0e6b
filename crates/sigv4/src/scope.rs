//! What a signing key is valid for.

/// How every credential scope ends that SigV4 defines.
const TERMINATOR: &str = "aws4_request";

/// The day, the region and the service that a signature is valid for, and a terminator:
/// `20130524/us-east-1/s3/aws4_request`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CredentialScope {
    text: String,
    /// Where the parts before the terminator end.
    date_end: usize,
    region_end: usize,
    service_end: usize,
}

impl CredentialScope {
    /// `date` is eight digits: `20130524`.
    pub fn new(date: &str, region: &str, service: &str) -> CredentialScope {
        let text = [date, "/", region, "/", service, "/", TERMINATOR].concat();
        let date_end = date.len();
        let region_end = date_end + 1 + region.len();
        let service_end = region_end + 1 + service.len();
        CredentialScope { text, date_end, region_end, service_end }
    }

    /// Splits a scope into its four parts, whatever they are: none of them is checked. `None` if
    /// there are more or fewer.
    pub fn parse(text: &str) -> Option<CredentialScope> {
        let mut slashes = text.match_indices('/').map(|(at, _)| at);
        let (date_end, region_end, service_end) =
            (slashes.next()?, slashes.next()?, slashes.next()?);
        if slashes.next().is_some() {
            return None;
        }
        Some(CredentialScope { text: text.to_owned(), date_end, region_end, service_end })
    }

    /// The whole of it, as it stands in a string to sign.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The day.
    pub fn date(&self) -> &str {
        &self.text[..self.date_end]
    }

    /// The region.
    pub fn region(&self) -> &str {
        &self.text[self.date_end + 1..self.region_end]
    }

    /// The service.
    pub fn service(&self) -> &str {
        &self.text[self.region_end + 1..self.service_end]
    }

    /// What follows the service.
    pub fn terminator(&self) -> &str {
        &self.text[self.service_end + 1..]
    }

    /// Whether the terminator is that of SigV4, `aws4_request`.
    pub fn is_terminated(&self) -> bool {
        self.terminator() == TERMINATOR
    }
}

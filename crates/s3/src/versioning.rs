//! Versioning of buckets.

use crate::xml::{Element, Writer, XmlLimits, malformed};
use crate::{Code, Fault};

/// Whether a bucket keeps what is replaced and deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VersioningStatus {
    /// Each write makes a version.
    Enabled,
    /// The versions that there are remain; writes replace the null version.
    Suspended,
}

impl VersioningStatus {
    const ALL: [VersioningStatus; 2] = [VersioningStatus::Enabled, VersioningStatus::Suspended];

    /// The name of it on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            VersioningStatus::Enabled => "Enabled",
            VersioningStatus::Suspended => "Suspended",
        }
    }

    /// The one with this name.
    pub fn named(name: &str) -> Option<VersioningStatus> {
        VersioningStatus::ALL.into_iter().find(|one| one.as_str() == name)
    }
}

/// The document of `PutBucketVersioning` and `GetBucketVersioning`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VersioningConfiguration {
    /// Nothing for a bucket that never kept versions. No request can ask for that, so that one
    /// that was read has a status.
    pub status: Option<VersioningStatus>,
}

/// How documents call the switch for deletion by two factors: on the wire, and in S3's reference.
const MFA_DELETE: [&str; 2] = ["MfaDelete", "MFADelete"];

impl VersioningConfiguration {
    /// Reads the document of `PutBucketVersioning`.
    ///
    /// Faults: `MalformedXML` without a status, or with one that is not known; `AccessDenied` for
    /// deletion by two factors, as S3 answers whoever asks for it without a second one. Nobody has
    /// one here.
    pub fn parse(body: &[u8]) -> Result<VersioningConfiguration, Fault> {
        let root = Element::parse(body, "VersioningConfiguration", XmlLimits::SMALL)?;
        root.refuse_unknown(&["Status", MFA_DELETE[0], MFA_DELETE[1]])?;
        let Some(status) = root.value("Status")?.filter(|status| !status.is_empty()) else {
            return Err(Fault::because(
                Code::IllegalVersioningConfigurationException,
                "The Versioning element must be specified",
            ));
        };
        let status = VersioningStatus::named(status)
            .ok_or_else(|| malformed("the Status is neither Enabled nor Suspended"))?;
        for name in MFA_DELETE {
            match root.value(name)? {
                // S3 takes an empty element as none.
                None | Some("" | "Disabled") => {}
                Some("Enabled") => {
                    return Err(Fault::because(
                        Code::AccessDenied,
                        "Mfa Authentication must be used for this request",
                    ));
                }
                Some(_) => return Err(malformed("MfaDelete is neither Enabled nor Disabled")),
            }
        }
        Ok(VersioningConfiguration { status: Some(status) })
    }

    /// The document of `GetBucketVersioning`: an empty element for a bucket that never kept
    /// versions.
    pub fn to_xml(self) -> String {
        let mut out = Writer::document();
        out.root("VersioningConfiguration", |out| {
            out.optional("Status", self.status.map(VersioningStatus::as_str));
        });
        out.finish()
    }
}

#[cfg(test)]
mod tests;

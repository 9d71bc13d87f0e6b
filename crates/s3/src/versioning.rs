//! Versioning configurations of buckets.
//!
//! For example, `<Status>Enabled</Status>` makes each later PUT of a key create a new version.

use crate::xml::{Element, Writer, XmlLimits, malformed};
use crate::{Code, Fault};

/// The versioning status of a bucket: it decides whether replaced and deleted objects are retained
/// as versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VersioningStatus {
    /// Each write or delete of a key creates a new version, and the older ones remain.
    Enabled,
    /// Existing versions remain. A write replaces only the null version of its key, that is, the
    /// version with the id `null`.
    Suspended,
}

impl VersioningStatus {
    const ALL: [VersioningStatus; 2] = [VersioningStatus::Enabled, VersioningStatus::Suspended];

    /// Returns the status's name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            VersioningStatus::Enabled => "Enabled",
            VersioningStatus::Suspended => "Suspended",
        }
    }

    /// Returns the status with this name.
    pub fn named(name: &str) -> Option<VersioningStatus> {
        VersioningStatus::ALL.into_iter().find(|one| one.as_str() == name)
    }
}

/// The document of `PutBucketVersioning` and `GetBucketVersioning`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VersioningConfiguration {
    /// The status; `None` for a bucket that never had versioning. No request can set `None`, so a
    /// parsed document always has a status.
    pub status: Option<VersioningStatus>,
}

/// The names of the element for MFA delete: on the wire, and in S3's reference.
const MFA_DELETE: [&str; 2] = ["MfaDelete", "MFADelete"];

impl VersioningConfiguration {
    /// Parses the document of `PutBucketVersioning`.
    ///
    /// Fails with `IllegalVersioningConfigurationException` without a status; `MalformedXML` for an
    /// unknown status; `AccessDenied` for MFA delete, as S3 answers requests without an MFA token.
    /// The gateway has no MFA devices.
    pub fn parse(body: &[u8]) -> Result<VersioningConfiguration, Fault> {
        let root = Element::parse(body, "VersioningConfiguration", XmlLimits::SMALL)?;
        // Both names of MFA delete are accepted, because clients follow either the wire format or
        // the reference.
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
                // S3 treats an empty element as absent.
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

    /// Returns the document of `GetBucketVersioning`: an empty element for a bucket that never had
    /// versioning.
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

//! Responses of S3 about features that a bucket has never used.

use crate::Code;
use crate::xml::Writer;

/// A response that is the same for every bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stub {
    /// The configuration does not exist.
    Absent(Code),
    /// 200 with a document: the outermost element's name and its content.
    Document(&'static str, &'static str),
    /// 204: there is nothing to delete, so nothing is left.
    NoContent,
}

impl Stub {
    /// The document of `Stub::Document`.
    pub fn to_xml(self) -> Option<String> {
        let Stub::Document(root, content) = self else { return None };
        let mut out = Writer::document();
        out.root(root, |out| out.literal(content));
        Some(out.finish())
    }
}

/// The content of an empty list.
const NOT_TRUNCATED: &str = "<IsTruncated>false</IsTruncated>";

// The table of operations names one of these for each operation that is `Stubbed`.
pub(super) const NO_ENCRYPTION: Stub =
    Stub::Absent(Code::ServerSideEncryptionConfigurationNotFoundError);
pub(super) const NO_REPLICATION: Stub = Stub::Absent(Code::ReplicationConfigurationNotFoundError);
pub(super) const NO_WEBSITE: Stub = Stub::Absent(Code::NoSuchWebsiteConfiguration);
pub(super) const NO_NOTIFICATIONS: Stub = Stub::Document("NotificationConfiguration", "");
pub(super) const NO_LOGGING: Stub = Stub::Document("BucketLoggingStatus", "");
pub(super) const NO_ACCELERATION: Stub = Stub::Document("AccelerateConfiguration", "");
pub(super) const OWNER_PAYS: Stub =
    Stub::Document("RequestPaymentConfiguration", "<Payer>BucketOwner</Payer>");
pub(super) const NO_INVENTORIES: Stub =
    Stub::Document("ListInventoryConfigurationsResult", NOT_TRUNCATED);
pub(super) const NO_ANALYTICS: Stub =
    Stub::Document("ListBucketAnalyticsConfigurationsResult", NOT_TRUNCATED);
pub(super) const NO_METRICS: Stub =
    Stub::Document("ListMetricsConfigurationsResult", NOT_TRUNCATED);
pub(super) const NO_TIERINGS: Stub =
    Stub::Document("ListBucketIntelligentTieringConfigurationsOutput", NOT_TRUNCATED);
pub(super) const NOTHING_TO_DELETE: Stub = Stub::NoContent;

//! The responses to operations of features that a bucket has never used.
//!
//! Clients send some of these requests before they do their work, and an error would stop them. For
//! example, `GET /bucket?accelerate` returns an empty `AccelerateConfiguration`.

use crate::Code;
use crate::xml::Writer;

/// The response to an operation of a feature that the gateway does not have. It is the same for all
/// buckets: the response for a bucket that has never used the feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stub {
    /// 404 with this code: the configuration does not exist.
    Absent(Code),
    /// 200 with a document: the name of the root element, and its content.
    Document(&'static str, &'static str),
    /// 204: there is nothing to delete.
    NoContent,
}

impl Stub {
    /// Returns the document of `Stub::Document`; `None` for other responses.
    pub fn to_xml(self) -> Option<String> {
        let Stub::Document(root, content) = self else { return None };
        let mut out = Writer::document();
        out.root(root, |out| out.literal(content));
        Some(out.finish())
    }
}

/// The content of the document of an empty list of configurations.
const NOT_TRUNCATED: &str = "<IsTruncated>false</IsTruncated>";

// Each `Stubbed` row in the table of operations names one of these constants. A configuration that
// is stored one day takes its constant along, as the answer while the bucket has none.
pub(crate) const NO_REPLICATION: Stub = Stub::Absent(Code::ReplicationConfigurationNotFoundError);
pub(crate) const NO_WEBSITE: Stub = Stub::Absent(Code::NoSuchWebsiteConfiguration);
pub(crate) const NO_NOTIFICATIONS: Stub = Stub::Document("NotificationConfiguration", "");
pub(crate) const NO_ACCELERATION: Stub = Stub::Document("AccelerateConfiguration", "");
pub(crate) const OWNER_PAYS: Stub =
    Stub::Document("RequestPaymentConfiguration", "<Payer>BucketOwner</Payer>");
pub(crate) const NO_INVENTORIES: Stub =
    Stub::Document("ListInventoryConfigurationsResult", NOT_TRUNCATED);
pub(crate) const NO_ANALYTICS: Stub =
    Stub::Document("ListBucketAnalyticsConfigurationsResult", NOT_TRUNCATED);
pub(crate) const NO_METRICS: Stub =
    Stub::Document("ListMetricsConfigurationsResult", NOT_TRUNCATED);
pub(crate) const NO_TIERINGS: Stub =
    Stub::Document("ListBucketIntelligentTieringConfigurationsOutput", NOT_TRUNCATED);
pub(crate) const NOTHING_TO_DELETE: Stub = Stub::NoContent;

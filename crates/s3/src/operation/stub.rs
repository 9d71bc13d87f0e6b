//! Responses of S3 about features that a bucket has never used.

use super::Operation;
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

impl Operation {
    /// The response to a stubbed operation, if the bucket exists and the client has the permission.
    /// `None` for operations that are served or refused.
    pub const fn stub(self) -> Option<Stub> {
        match self {
            Operation::GetBucketEncryption => {
                Some(Stub::Absent(Code::ServerSideEncryptionConfigurationNotFoundError))
            }
            Operation::GetBucketReplication => {
                Some(Stub::Absent(Code::ReplicationConfigurationNotFoundError))
            }
            Operation::GetBucketWebsite => Some(Stub::Absent(Code::NoSuchWebsiteConfiguration)),
            _ => self.empty(),
        }
    }

    const fn empty(self) -> Option<Stub> {
        const NOT_TRUNCATED: &str = "<IsTruncated>false</IsTruncated>";
        Some(match self {
            Operation::GetBucketNotificationConfiguration => {
                Stub::Document("NotificationConfiguration", "")
            }
            Operation::GetBucketLogging => Stub::Document("BucketLoggingStatus", ""),
            Operation::GetBucketAccelerateConfiguration => {
                Stub::Document("AccelerateConfiguration", "")
            }
            Operation::GetBucketRequestPayment => {
                Stub::Document("RequestPaymentConfiguration", "<Payer>BucketOwner</Payer>")
            }
            Operation::ListBucketInventoryConfigurations => {
                Stub::Document("ListInventoryConfigurationsResult", NOT_TRUNCATED)
            }
            Operation::ListBucketAnalyticsConfigurations => {
                Stub::Document("ListBucketAnalyticsConfigurationsResult", NOT_TRUNCATED)
            }
            Operation::ListBucketMetricsConfigurations => {
                Stub::Document("ListMetricsConfigurationsResult", NOT_TRUNCATED)
            }
            Operation::ListBucketIntelligentTieringConfigurations => {
                Stub::Document("ListBucketIntelligentTieringConfigurationsOutput", NOT_TRUNCATED)
            }
            Operation::DeleteBucketEncryption
            | Operation::DeleteBucketReplication
            | Operation::DeleteBucketWebsite => Stub::NoContent,
            _ => return None,
        })
    }
}

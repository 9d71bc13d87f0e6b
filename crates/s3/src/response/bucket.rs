//! Responses about buckets.

use time::OffsetDateTime;

use super::Owner;
use crate::xml::Writer;

/// The response to `ListBuckets`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListBucketsOutput {
    /// Whose buckets they are.
    pub owner: Owner,
    /// The buckets, by name.
    pub buckets: Vec<BucketEntry>,
    /// The prefix asked for, if any.
    pub prefix: Option<String>,
    /// Where the next page begins, if there is one.
    pub next_token: Option<String>,
}

/// A bucket in `ListBuckets`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketEntry {
    /// Its name.
    pub name: String,
    /// When it was made.
    pub created: OffsetDateTime,
    /// Its region, if the request pages or filters.
    pub region: Option<String>,
}

impl ListBucketsOutput {
    /// The document.
    pub fn to_xml(&self) -> String {
        let mut out = Writer::document();
        out.root("ListAllMyBucketsResult", |out| {
            self.owner.write(out, "Owner");
            out.element("Buckets", |out| {
                for bucket in &self.buckets {
                    out.element("Bucket", |out| {
                        out.text("Name", &bucket.name);
                        out.time("CreationDate", bucket.created);
                        out.optional("BucketRegion", bucket.region.as_deref());
                    });
                }
            });
            out.optional("Prefix", self.prefix.as_deref());
            out.optional("ContinuationToken", self.next_token.as_deref());
        });
        out.finish()
    }
}

/// The response to `GetBucketLocation`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocationConstraint {
    /// The region; `us-east-1` is written as an empty element, as S3 has it.
    pub region: String,
}

impl LocationConstraint {
    /// The document.
    pub fn to_xml(&self) -> String {
        let region = if self.region == "us-east-1" { "" } else { &self.region };
        let mut out = Writer::document();
        out.root("LocationConstraint", |out| out.characters(region));
        out.finish()
    }
}

/// The response to `GetBucketAcl` and `GetObjectAcl`: the owner has full control, and nobody else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessControlPolicy {
    /// The owner.
    pub owner: Owner,
}

impl AccessControlPolicy {
    /// The document.
    pub fn to_xml(&self) -> String {
        let mut out = Writer::document();
        out.root("AccessControlPolicy", |out| {
            self.owner.write(out, "Owner");
            out.element("AccessControlList", |out| {
                out.element("Grant", |out| {
                    out.literal(
                        "<Grantee xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" \
                         xsi:type=\"CanonicalUser\">",
                    );
                    out.text("ID", &self.owner.id);
                    out.text("DisplayName", &self.owner.display_name);
                    out.literal("</Grantee>");
                    out.text("Permission", "FULL_CONTROL");
                });
            });
        });
        out.finish()
    }
}

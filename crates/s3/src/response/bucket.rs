//! Responses about buckets.

use time::OffsetDateTime;

use super::Owner;
use crate::request::{OwnershipRule, PublicAccessBlockConfiguration};
use crate::xml::Writer;

/// The response to `ListBuckets`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListBucketsOutput {
    /// The owner of the buckets.
    pub owner: Owner,
    /// The buckets, sorted by name.
    pub buckets: Vec<BucketEntry>,
    /// The prefix in the request, if any.
    pub prefix: Option<String>,
    /// The continuation token with which a request gets the next page; `None` if no page follows.
    pub next_token: Option<String>,
}

/// A bucket in `ListBuckets`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketEntry {
    /// The name of the bucket.
    pub name: String,
    /// The creation time of the bucket.
    pub created: OffsetDateTime,
    /// The region of the bucket. S3 sends it only if the request has a page size or a filter;
    /// otherwise `None`.
    pub region: Option<String>,
}

impl ListBucketsOutput {
    /// Returns the response as an XML document.
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
    /// The region. `us-east-1` becomes an empty element, as in S3.
    pub region: String,
}

impl LocationConstraint {
    /// Returns the response as an XML document.
    pub fn to_xml(&self) -> String {
        // S3's oldest region has no name in this document.
        let region = if self.region == "us-east-1" { "" } else { &self.region };
        let mut out = Writer::document();
        out.root("LocationConstraint", |out| out.characters(region));
        out.finish()
    }
}

/// Returns the response to `GetBucketOwnershipControls`.
pub fn ownership_controls(ownership: OwnershipRule) -> String {
    let mut out = Writer::document();
    out.root("OwnershipControls", |out| {
        out.element("Rule", |out| out.text("ObjectOwnership", ownership.as_str()));
    });
    out.finish()
}

/// Returns the response to `GetPublicAccessBlock`.
pub fn public_access_block(block: PublicAccessBlockConfiguration) -> String {
    let mut out = Writer::document();
    out.root("PublicAccessBlockConfiguration", |out| {
        out.flag("BlockPublicAcls", block.block_public_acls);
        out.flag("IgnorePublicAcls", block.ignore_public_acls);
        out.flag("BlockPublicPolicy", block.block_public_policy);
        out.flag("RestrictPublicBuckets", block.restrict_public_buckets);
    });
    out.finish()
}

/// Returns the response to `GetBucketPolicyStatus`.
pub fn policy_status(is_public: bool) -> String {
    let mut out = Writer::document();
    out.root("PolicyStatus", |out| out.flag("IsPublic", is_public));
    out.finish()
}

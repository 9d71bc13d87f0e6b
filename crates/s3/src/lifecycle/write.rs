//! Writes the document of `GetBucketLifecycleConfiguration`.

use super::{
    LifecycleConfiguration, NoncurrentExpiration, Rule, RuleExpiration, RuleFilter, RulePredicate,
    RuleScope,
};
use crate::xml::Writer;

impl LifecycleConfiguration {
    /// Returns the document of `GetBucketLifecycleConfiguration`: the stored configuration, with
    /// elements in S3's order.
    pub fn to_xml(&self) -> String {
        let mut out = Writer::document();
        out.root("LifecycleConfiguration", |out| {
            for rule in &self.rules {
                out.element("Rule", |out| rule.write(out));
            }
        });
        out.finish()
    }
}

impl Rule {
    fn write(&self, out: &mut Writer) {
        out.optional("ID", self.id.as_deref());
        match &self.scope {
            RuleScope::Prefix(prefix) => out.text("Prefix", prefix),
            RuleScope::Filter(filter) => out.element("Filter", |out| filter.write(out)),
        }
        out.text("Status", if self.enabled { "Enabled" } else { "Disabled" });
        if let Some(expiration) = self.expiration {
            out.element("Expiration", |out| expiration.write(out));
        }
        if let Some(expiration) = self.noncurrent_expiration {
            out.element("NoncurrentVersionExpiration", |out| expiration.write(out));
        }
        if let Some(days) = self.abort_uploads_after_days {
            out.element("AbortIncompleteMultipartUpload", |out| {
                out.number("DaysAfterInitiation", days.into());
            });
        }
    }
}

impl RuleFilter {
    fn write(&self, out: &mut Writer) {
        let write_all = |out: &mut Writer| self.predicates.iter().for_each(|it| it.write(out));
        // The parser accepts `And` only for two or more predicates, so the document round-trips.
        if self.predicates.len() < 2 {
            write_all(out);
        } else {
            out.element("And", write_all);
        }
    }
}

impl RulePredicate {
    fn write(&self, out: &mut Writer) {
        match self {
            RulePredicate::Prefix(prefix) => out.text("Prefix", prefix),
            RulePredicate::Tag { key, value } => out.element("Tag", |out| {
                out.text("Key", key);
                out.text("Value", value);
            }),
            RulePredicate::SizeGreaterThan(size) => out.number("ObjectSizeGreaterThan", *size),
            RulePredicate::SizeLessThan(size) => out.number("ObjectSizeLessThan", *size),
        }
    }
}

impl RuleExpiration {
    fn write(self, out: &mut Writer) {
        match self {
            RuleExpiration::Days(days) => out.number("Days", days.into()),
            RuleExpiration::Date(date) => out.time("Date", date),
            RuleExpiration::ExpiredObjectDeleteMarker(set) => {
                out.flag("ExpiredObjectDeleteMarker", set);
            }
        }
    }
}

impl NoncurrentExpiration {
    fn write(self, out: &mut Writer) {
        out.number("NoncurrentDays", self.days.into());
        if let Some(newer) = self.newer_versions {
            out.number("NewerNoncurrentVersions", newer.into());
        }
    }
}

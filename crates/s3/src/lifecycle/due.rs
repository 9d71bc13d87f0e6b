//! When the actions of rules are due.

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use time::{Duration, OffsetDateTime, PrimitiveDateTime};

use super::{LifecycleConfiguration, Rule, RuleExpiration};
use crate::conditions::format_http_date;

/// When an action is due so many days after something happened: at the first midnight in UTC that
/// is not before the end of the last day ("rounding up the resulting time to the next day at
/// midnight UTC", user guide, "Lifecycle configuration elements").
///
/// `day` is how long a day is taken to be, which is 24 hours but for tests. Of another length, days
/// begin at its multiples since 1970. What would be due after the year 9999 is due at its end.
pub fn due_at(since: OffsetDateTime, days: u32, day: Duration) -> OffsetDateTime {
    // A day that lasts no time at all would leave nothing to divide by.
    let day = day.whole_nanoseconds().max(1);
    let end = day.saturating_mul(days.into()).saturating_add(since.unix_timestamp_nanos());
    let rest = end.rem_euclid(day);
    let midnight = if rest == 0 { end } else { end.saturating_add(day - rest) };
    OffsetDateTime::from_unix_timestamp_nanos(midnight)
        .unwrap_or(const { PrimitiveDateTime::MAX.assume_utc() })
}

impl Rule {
    /// When the current version of an object expires that was written then; nothing if the rule
    /// does not make current versions expire. Whether the rule is about the object, and enabled, is
    /// not asked. `day` is as for [`due_at`].
    pub fn expires_at(
        &self,
        last_modified: OffsetDateTime,
        day: Duration,
    ) -> Option<OffsetDateTime> {
        match self.expiration? {
            RuleExpiration::Days(days) => Some(due_at(last_modified, days, day)),
            RuleExpiration::Date(date) => Some(date),
            RuleExpiration::ExpiredObjectDeleteMarker(_) => None,
        }
    }

    /// When a version expires that was replaced, or deleted, then; likewise.
    pub fn noncurrent_expires_at(
        &self,
        replaced: OffsetDateTime,
        day: Duration,
    ) -> Option<OffsetDateTime> {
        Some(due_at(replaced, self.noncurrent_expiration?.days, day))
    }

    /// When an upload is aborted that was begun then; likewise.
    pub fn aborts_upload_at(&self, begun: OffsetDateTime, day: Duration) -> Option<OffsetDateTime> {
        Some(due_at(begun, self.abort_uploads_after_days?, day))
    }
}

impl LifecycleConfiguration {
    /// When the current version of an object expires, and by which rule: of those that are enabled
    /// and about it, the one that is due first, and the first of several.
    pub fn next_expiration(
        &self,
        key: &str,
        size: u64,
        tags: &[(String, String)],
        last_modified: OffsetDateTime,
        day: Duration,
    ) -> Option<(&Rule, OffsetDateTime)> {
        let rules = self.rules.iter().filter(|rule| rule.enabled && rule.matches(key, size, tags));
        let due = rules.filter_map(|rule| Some((rule, rule.expires_at(last_modified, day)?)));
        due.min_by_key(|(_, time)| *time)
    }
}

impl LifecycleConfiguration {
    /// When an upload is aborted that was begun then, and by which rule; likewise.
    pub fn next_abort(
        &self,
        key: &str,
        begun: OffsetDateTime,
        day: Duration,
    ) -> Option<(&Rule, OffsetDateTime)> {
        let rules = self.rules.iter().filter(|rule| rule.enabled && rule.covers_key(key));
        let due = rules.filter_map(|rule| Some((rule, rule.aborts_upload_at(begun, day)?)));
        due.min_by_key(|(_, time)| *time)
    }
}

/// What stands encoded in the header, besides what is not ASCII: whatever would end the quotes, or
/// could not stand in a header, or would be decoded to something else. S3's reference calls ids
/// URL-encoded, yet S3 was only ever seen to send spaces as they are, and programs compare ids
/// without decoding them.
const ENCODED: &AsciiSet = &CONTROLS.add(b'"').add(b'%').add(b'+').add(b'\\');

/// The value of `x-amz-expiration`: when an object expires, and by which rule.
pub fn expiration_header(rule_id: &str, date: OffsetDateTime) -> String {
    let (date, id) = (format_http_date(date), utf8_percent_encode(rule_id, ENCODED));
    format!("expiry-date=\"{date}\", rule-id=\"{id}\"")
}

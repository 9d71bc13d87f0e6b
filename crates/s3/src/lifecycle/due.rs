//! Due times of lifecycle actions.

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use time::{Duration, OffsetDateTime, PrimitiveDateTime};

use super::{LifecycleConfiguration, Rule, RuleExpiration};
use crate::conditions::format_http_date;

/// Returns the time at which the action of a lifecycle rule is due, `days` after `since`: the first
/// midnight in UTC that is not before the end of the last day ("rounding up the resulting time to
/// the next day at midnight UTC", user guide, "Lifecycle configuration elements"). For example, one
/// day after 2026-01-01 10:00 is 2026-01-03 00:00.
///
/// `day` is the length of a day: 24 hours, except in tests. With another length, days begin at
/// multiples of it since 1970. A time after the year 9999 becomes the end of that year.
pub fn due_at(since: OffsetDateTime, days: u32, day: Duration) -> OffsetDateTime {
    // At least one nanosecond, because the computation divides by it.
    let day = day.whole_nanoseconds().max(1);
    // Saturating arithmetic: a rule can have up to 2^31 days.
    let end = day.saturating_mul(days.into()).saturating_add(since.unix_timestamp_nanos());
    let rest = end.rem_euclid(day);
    let midnight = if rest == 0 { end } else { end.saturating_add(day - rest) };
    OffsetDateTime::from_unix_timestamp_nanos(midnight)
        .unwrap_or(const { PrimitiveDateTime::MAX.assume_utc() })
}

impl Rule {
    /// Returns the time at which the current version of an object expires by this rule; `None` if
    /// the rule does not expire current versions. The rule's filter and status are not checked.
    /// `day` is as in [`due_at`].
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

    /// Returns the time at which a noncurrent version expires that was replaced or deleted at
    /// `replaced`; `None` if the rule does not expire noncurrent versions. The rule's filter and
    /// status are not checked.
    pub fn noncurrent_expires_at(
        &self,
        replaced: OffsetDateTime,
        day: Duration,
    ) -> Option<OffsetDateTime> {
        Some(due_at(replaced, self.noncurrent_expiration?.days, day))
    }

    /// Returns the time at which a multipart upload is aborted that began at `begun`; `None` if the
    /// rule does not abort uploads. The rule's filter and status are not checked.
    pub fn aborts_upload_at(&self, begun: OffsetDateTime, day: Duration) -> Option<OffsetDateTime> {
        Some(due_at(begun, self.abort_uploads_after_days?, day))
    }
}

impl LifecycleConfiguration {
    /// Returns the earliest time at which the current version of an object expires, and the rule
    /// that causes it. Only enabled rules that match the object count. If several rules have the
    /// same time, returns the first of them.
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
        // If several rules have the same time, `min_by_key` returns the first one.
        due.min_by_key(|(_, time)| *time)
    }
}

impl LifecycleConfiguration {
    /// Returns the earliest time at which a multipart upload is aborted that began at `begun`, and
    /// the rule that causes it. Only enabled rules whose prefix matches the key count. If several
    /// rules have the same time, returns the first of them.
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

/// The ASCII characters of a rule id that the header `x-amz-expiration` escapes, in addition to all
/// characters that are not ASCII: characters that end the quotes, that are not valid in a header,
/// or that a decoder would change. S3's reference says that ids are URL-encoded, but S3 sends
/// spaces unescaped, and programs compare ids without decoding them.
const ENCODED: &AsciiSet = &CONTROLS.add(b'"').add(b'%').add(b'+').add(b'\\');

/// Returns the value of the response header `x-amz-expiration`: the time at which an object
/// expires, and the id of the rule.
pub fn expiration_header(rule_id: &str, date: OffsetDateTime) -> String {
    let (date, id) = (format_http_date(date), utf8_percent_encode(rule_id, ENCODED));
    format!("expiry-date=\"{date}\", rule-id=\"{id}\"")
}

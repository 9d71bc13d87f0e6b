//! Ranges and conditions of requests, compared with the rules of RFC 9110.

use s3::conditions::{
    ConditionNames, ETagList, ReadPreconditions, ReadVerdict, StatPrecondition, WritePrecondition,
    format_http_date, parse_http_date,
};
use s3::request::Fields;
use s3::{Range, Span};
use time::OffsetDateTime;

use crate::faults;
use crate::message::Message;
use crate::naive_signer::NOW;

/// The input: a request as text, of which the headers matter.
pub(crate) fn check(input: &[u8]) {
    let Some(message) = Message::read(input) else { return };
    let fields = Fields::new(&message.headers, &[]);
    for name in ["range", "if-match", "if-modified-since"] {
        let Ok(Some(text)) = fields.get(name) else { continue };
        range(text);
        list(text);
        date(text);
    }
    match ReadPreconditions::parse(fields) {
        Ok(conditions) => decided(&conditions),
        Err(fault) => faults::are_told(&fault, input.len()),
    }
    if let Ok(conditions) = ReadPreconditions::parse_for_source(fields) {
        let verdict = conditions.decide("etag", NOW);
        let checked = conditions.check(&ConditionNames::COPY_SOURCE, "etag", NOW);
        assert_eq!(checked.is_ok(), verdict == ReadVerdict::Proceed);
    }
    if let Err(fault) = StatPrecondition::parse(fields) {
        faults::are_told(&fault, input.len());
    }
    match WritePrecondition::parse(fields) {
        Ok(WritePrecondition::None) => assert!(!fields.has("if-match")),
        Ok(condition) => {
            let (there, absent) = (condition.check(Some("etag")), condition.check(None));
            if matches!(condition, WritePrecondition::IfNoneMatch(_)) {
                assert!(absent.is_ok(), "an absent object matches no ETag: {condition:?}");
            } else {
                assert!(there.is_err() || absent.is_err(), "on what is there: {condition:?}");
            }
        }
        Err(fault) => faults::are_told(&fault, input.len()),
    }
}

fn range(text: &str) {
    if let Ok(strict) = Range::parse_strict(text) {
        assert_eq!(Range::parse(text), Some(strict), "a strict range is also a valid one");
    }
    let Some(range) = Range::parse(text) else { return };
    assert_eq!(Range::parse(&range.to_string()), Some(range));
    let mentioned = match range {
        Range::Between { first, last } => [first, last],
        Range::From(at) | Range::Last(at) => [at, at],
    };
    let near = mentioned.into_iter().flat_map(|at| [at, at.saturating_add(1)]);
    for size in near.chain([0, 1, u64::MAX]) {
        let naive = naive_span(range, size);
        match range.resolve(size) {
            Ok(span) => {
                assert_eq!(span, naive);
                let Some(span) = span else { continue };
                assert!(span.length > 0 && span.last() < size && span.size == size);
            }
            Err(fault) => {
                assert_eq!(naive, None);
                faults::are_told(&fault, text.len());
            }
        }
        if let Ok(span) = range.resolve_source(size) {
            assert_eq!(Some(span), naive_span(range, size), "a source is never clamped");
        }
    }
}

/// Computes the span with integers that cannot overflow.
fn naive_span(range: Range, size: u64) -> Option<Span> {
    let wide = i128::from(size);
    let (first, last) = match range {
        Range::Between { first, last } => (i128::from(first), i128::from(last).min(wide - 1)),
        Range::From(first) => (i128::from(first), wide - 1),
        Range::Last(length) => ((wide - i128::from(length)).max(0), wide - 1),
    };
    let length = u64::try_from(last - first + 1).ok().filter(|length| *length > 0)?;
    Some(Span { first: u64::try_from(first).ok()?, length, size })
}

fn list(text: &str) {
    let list = ETagList::parse(text);
    let ETagList::Tags(tags) = &list else {
        assert_eq!(text.trim(), "*");
        return;
    };
    let bytes: usize = tags.iter().map(|listed| listed.tag.len()).sum();
    assert!(bytes <= text.len() && tags.iter().all(|listed| text.contains(&listed.tag)));
    for listed in tags {
        assert!(list.matches_weakly(&listed.tag));
        assert!(listed.weak || list.matches(&listed.tag));
    }
    let spelt: Vec<String> = tags
        .iter()
        .map(|listed| format!("{}\"{}\"", if listed.weak { "W/" } else { "" }, listed.tag))
        .collect();
    if tags.iter().all(|listed| !listed.tag.contains('"')) {
        assert_eq!(ETagList::parse(&spelt.join(", ")), list);
    }
}

fn date(text: &str) {
    if let Some(date) = parse_http_date(text) {
        assert_eq!(parse_http_date(&format_http_date(date)), Some(date));
    }
}

/// The order of RFC 9110, 13.2.2, for each of a few objects.
fn decided(conditions: &ReadPreconditions) {
    let sent = [conditions.if_modified_since, conditions.if_unmodified_since];
    let times = sent.into_iter().flatten().chain([NOW]);
    for (etag, modified) in times.flat_map(|at| [("etag", at), ("other", at)]) {
        let naive = naive_verdict(conditions, etag, modified);
        assert_eq!(conditions.decide(etag, modified), naive);
    }
}

fn naive_verdict(it: &ReadPreconditions, etag: &str, modified: OffsetDateTime) -> ReadVerdict {
    let at = modified.unix_timestamp();
    if let Some(list) = &it.if_match {
        if !list.matches(etag) {
            return ReadVerdict::Failed("If-Match");
        }
    } else if it.if_unmodified_since.is_some_and(|since| at > since.unix_timestamp()) {
        return ReadVerdict::Failed("If-Unmodified-Since");
    }
    let unchanged = match &it.if_none_match {
        Some(list) => list.matches_weakly(etag),
        None => it.if_modified_since.is_some_and(|since| at <= since.unix_timestamp()),
    };
    if unchanged { ReadVerdict::NotModified } else { ReadVerdict::Proceed }
}

//! Parses and checks the document of `PutBucketLifecycleConfiguration`.
//!
//! The error messages are those that S3 was observed to send, as far as they were observed.

use std::collections::BTreeSet;

use time::{OffsetDateTime, Time};

use super::{
    LifecycleConfiguration, NoncurrentExpiration, Rule, RuleExpiration, RuleFilter, RulePredicate,
    RuleScope,
};
use crate::xml::{Element, XmlLimits, is_writable, malformed, parse_time};
use crate::{Code, Fault};

/// The number of XML elements for each rule that the limit of the document allows. A rule with all
/// possible elements and ten tags has 45.
const ELEMENTS_PER_RULE: usize = 50;

impl LifecycleConfiguration {
    /// Parses the document of `PutBucketLifecycleConfiguration`.
    ///
    /// Fails with `InvalidRequest` or `InvalidArgument` for a rule that S3 does not accept;
    /// `NotImplemented` for transitions to other storage classes; `MalformedXML`; or
    /// `MaxMessageLengthExceeded` for more than 1 MiB.
    pub fn parse(body: &[u8]) -> Result<LifecycleConfiguration, Fault> {
        // A configuration with the maximum number of rules has more elements than other documents.
        let elements = LifecycleConfiguration::RULES_MAX * ELEMENTS_PER_RULE;
        let limits = XmlLimits { elements, ..XmlLimits::SMALL };
        let root = Element::parse(body, "LifecycleConfiguration", limits)?;
        root.refuse_unknown(&["Rule"])?;
        if root.children().is_empty() {
            return Err(refuse("At least one lifecycle rule must be specified."));
        }
        if root.children().len() > LifecycleConfiguration::RULES_MAX {
            return Err(refuse(
                "The number of lifecycle rules must not exceed the allowed limit of 1000 rules.",
            ));
        }
        let rules = root.children().iter().map(rule).collect::<Result<Vec<_>, _>>()?;
        // The rules are checked alone first, then against each other.
        check_ids(&rules)?;
        check_scope_forms(&rules)?;
        Ok(LifecycleConfiguration { rules })
    }
}

/// Checks the length of the ids of the rules, and that the ids are distinct.
fn check_ids(rules: &[Rule]) -> Result<(), Fault> {
    let mut seen = BTreeSet::new();
    for id in rules.iter().filter_map(|rule| rule.id.as_deref()) {
        if id.chars().count() > LifecycleConfiguration::ID_CHARACTERS_MAX {
            let why = "ID length should not exceed allowed limit of 255";
            return Err(Fault::because(Code::InvalidArgument, why).with("ArgumentName", "ID"));
        }
        if !seen.insert(id) {
            let why = "Rule ID must be unique. Found same ID for more than one rule";
            return Err(invalid("ID", id, why));
        }
    }
    Ok(())
}

/// Refuses a configuration in which some rules have a prefix of their own (the older form) and
/// others a filter. The first rule determines the form.
fn check_scope_forms(rules: &[Rule]) -> Result<(), Fault> {
    let has_own_prefix = |rule: &Rule| matches!(rule.scope, RuleScope::Prefix(_));
    // S3 has different messages, depending on the form of the first rule.
    if !rules.first().is_some_and(has_own_prefix) {
        if rules.iter().any(has_own_prefix) {
            return Err(refuse(
                "Base level prefix cannot be used in Lifecycle V2, prefixes are only supported in \
                 the Filter.",
            ));
        }
        return Ok(());
    }
    let keeps_newer = |expiration: &NoncurrentExpiration| expiration.newer_versions.is_some();
    for rule in rules {
        if !has_own_prefix(rule) {
            return Err(refuse("Filter element can only be used in Lifecycle V2."));
        }
        if rule.noncurrent_expiration.as_ref().is_some_and(keeps_newer) {
            return Err(refuse(
                "NewerNoncurrentVersions element can only be used in Lifecycle V2.",
            ));
        }
    }
    Ok(())
}

/// Parses a lifecycle rule. Transitions are refused first, with `NotImplemented` instead of the
/// `MalformedXML` of unknown elements.
fn rule(element: &Element) -> Result<Rule, Fault> {
    for name in ["Transition", "NoncurrentVersionTransition"] {
        if element.children().iter().any(|child| child.name() == name) {
            return Err(Fault::new(Code::NotImplemented).with("Feature", name));
        }
    }
    element.refuse_unknown(&[
        "ID",
        "Status",
        "Prefix",
        "Filter",
        "Expiration",
        "NoncurrentVersionExpiration",
        "AbortIncompleteMultipartUpload",
    ])?;
    let enabled = match element.required("Status")? {
        "Enabled" => true,
        "Disabled" => false,
        _ => return Err(malformed("a Status is neither Enabled nor Disabled")),
    };
    let action = |name| element.child(name);
    let noncurrent = action("NoncurrentVersionExpiration")?.map(noncurrent_expiration);
    let rule = Rule {
        id: text(element, "ID")?.filter(|id| !id.is_empty()),
        enabled,
        scope: scope(element)?,
        expiration: action("Expiration")?.map(expiration).transpose()?,
        noncurrent_expiration: noncurrent.transpose()?,
        abort_uploads_after_days: action("AbortIncompleteMultipartUpload")?
            .map(abort)
            .transpose()?,
    };
    check_actions(&rule)?;
    Ok(rule)
}

/// Refuses a rule without actions, and a rule whose filter has predicates that its action cannot
/// evaluate: delete markers and uploads have neither tags nor a size.
fn check_actions(rule: &Rule) -> Result<(), Fault> {
    let marker = matches!(rule.expiration, Some(RuleExpiration::ExpiredObjectDeleteMarker(_)));
    let abort = rule.abort_uploads_after_days.is_some();
    if rule.expiration.is_none() && rule.noncurrent_expiration.is_none() && !abort {
        return Err(refuse("At least one action needs to be specified in a rule"));
    }
    for predicate in rule.scope.predicates() {
        let [marker_message, upload_message] = match predicate {
            RulePredicate::Prefix(_) => continue,
            RulePredicate::Tag { .. } => [
                "ExpiredObjectDeleteMarker cannot be specified with Tags.",
                "AbortIncompleteMultipartUpload cannot be specified with Tags.",
            ],
            RulePredicate::SizeGreaterThan(_) | RulePredicate::SizeLessThan(_) => [
                "ExpiredObjectDeleteMarker cannot be specified with Object Size.",
                "AbortIncompleteMultipartUpload cannot be specified with Object Size.",
            ],
        };
        if marker {
            return Err(refuse(marker_message));
        }
        if abort {
            return Err(refuse(upload_message));
        }
    }
    Ok(())
}

fn scope(rule: &Element) -> Result<RuleScope, Fault> {
    match (prefix(rule)?, rule.child("Filter")?) {
        (Some(prefix), None) => Ok(RuleScope::Prefix(prefix)),
        (None, Some(element)) => Ok(RuleScope::Filter(filter(element)?)),
        (Some(_), Some(_)) => Err(malformed("a Rule has both a Filter and a Prefix")),
        (None, None) => Err(malformed("a Rule needs a Filter")),
    }
}

fn filter(element: &Element) -> Result<RuleFilter, Fault> {
    // One predicate is a child of `Filter`; two or more are children of `And`. S3 refuses all other
    // forms.
    let (predicates, fits) = match element.child("And")? {
        None => {
            let predicates = predicates(element)?;
            let fits = predicates.len() < 2;
            (predicates, fits)
        }
        Some(and) => {
            let predicates = predicates(and)?;
            let fits = predicates.len() >= 2 && element.children().len() == 1;
            (predicates, fits)
        }
    };
    if !fits {
        return Err(malformed(
            "a Filter must have And if and only if it has two or more predicates",
        ));
    }
    Ok(RuleFilter { predicates })
}

/// Parses the predicates in a `Filter` or an `And`, in the order in which S3 shows them.
fn predicates(element: &Element) -> Result<Vec<RulePredicate>, Fault> {
    element.refuse_unknown(&["Prefix", "Tag", "ObjectSizeGreaterThan", "ObjectSizeLessThan"])?;
    let mut predicates = Vec::new();
    predicates.extend(prefix(element)?.map(RulePredicate::Prefix));
    let mut keys = BTreeSet::new();
    for child in element.children().iter().filter(|child| child.name() == "Tag") {
        let (key, value) = tag(child)?;
        if !keys.insert(key.clone()) {
            return Err(refuse("Duplicate Tag Keys are not allowed."));
        }
        predicates.push(RulePredicate::Tag { key, value });
    }
    let greater = size(element, "ObjectSizeGreaterThan", 0)?;
    // At least 1, because no object is smaller than 0 bytes.
    let less = size(element, "ObjectSizeLessThan", 1)?;
    if greater.zip(less).is_some_and(|(greater, less)| greater >= less) {
        return Err(refuse(
            "'ObjectSizeLessThan' has to be a value greater than 'ObjectSizeGreaterThan'.",
        ));
    }
    predicates.extend(greater.map(RulePredicate::SizeGreaterThan));
    predicates.extend(less.map(RulePredicate::SizeLessThan));
    Ok(predicates)
}

fn prefix(element: &Element) -> Result<Option<String>, Fault> {
    let prefix = text(element, "Prefix")?;
    if prefix.as_ref().is_some_and(|it| it.len() > LifecycleConfiguration::PREFIX_BYTES_MAX) {
        return Err(refuse("The maximum size of a prefix is 1024."));
    }
    Ok(prefix)
}

fn tag(element: &Element) -> Result<(String, String), Fault> {
    element.refuse_unknown(&["Key", "Value"])?;
    let (Some(key), Some(value)) = (text(element, "Key")?, text(element, "Value")?) else {
        return Err(malformed("a Tag needs a Key and a Value"));
    };
    // The limits of tags, with other messages than those of tagging requests.
    if !(1..=128).contains(&key.chars().count()) {
        return Err(refuse("A Tag's Key must be a length between 1 and 128."));
    }
    if value.chars().count() > 256 {
        return Err(refuse("A Tag's Value must be a length between 0 and 256."));
    }
    Ok((key, value))
}

fn size(element: &Element, name: &str, min: u64) -> Result<Option<u64>, Fault> {
    let Some(text) = element.value(name)? else { return Ok(None) };
    // A negative number is out of range and not malformed, so it is parsed as a signed number.
    let size: i64 = text.parse().map_err(|_| malformed("a size is not a number"))?;
    match u64::try_from(size) {
        Ok(size) if (min..=LifecycleConfiguration::SIZE_MAX).contains(&size) => Ok(Some(size)),
        _ => {
            let max = LifecycleConfiguration::SIZE_MAX;
            let why = format!("'{name}' should be between {min} and {max}.");
            Err(Fault::because(Code::InvalidRequest, why))
        }
    }
}

fn expiration(element: &Element) -> Result<RuleExpiration, Fault> {
    const MARKER: &str = "ExpiredObjectDeleteMarker";
    element.refuse_unknown(&["Days", "Date", MARKER])?;
    // Exactly one child: the forms exclude each other.
    if element.children().len() != 1 {
        return Err(malformed(
            "an Expiration needs exactly one of Days, Date, ExpiredObjectDeleteMarker",
        ));
    }
    if let Some(days) = positive(element, "Days", "Expiration")? {
        return Ok(RuleExpiration::Days(days));
    }
    if let Some(text) = element.value("Date")? {
        return date(text).map(RuleExpiration::Date);
    }
    match element.required(MARKER)? {
        "true" => Ok(RuleExpiration::ExpiredObjectDeleteMarker(true)),
        "false" => Ok(RuleExpiration::ExpiredObjectDeleteMarker(false)),
        _ => Err(malformed("ExpiredObjectDeleteMarker is neither true nor false")),
    }
}

fn date(text: &str) -> Result<OffsetDateTime, Fault> {
    let date = parse_time(text).ok_or_else(|| malformed("Date is not a valid time"))?;
    // `parse_time` returns UTC, so a date with an offset must also be midnight in UTC.
    if date.time() == Time::MIDNIGHT {
        return Ok(date);
    }
    Err(invalid("Date", text, "'Date' must be at midnight GMT"))
}

fn noncurrent_expiration(element: &Element) -> Result<NoncurrentExpiration, Fault> {
    const ACTION: &str = "NoncurrentVersionExpiration";
    const NEWER: &str = "NewerNoncurrentVersions";
    element.refuse_unknown(&["NoncurrentDays", NEWER])?;
    let days = positive(element, "NoncurrentDays", ACTION)?
        .ok_or_else(|| malformed("a NoncurrentVersionExpiration needs NoncurrentDays"))?;
    let newer_versions = positive(element, NEWER, ACTION)?;
    // S3 limits the number of retained versions.
    match newer_versions.filter(|newer| *newer > LifecycleConfiguration::NEWER_VERSIONS_MAX) {
        None => Ok(NoncurrentExpiration { days, newer_versions }),
        Some(newer) => {
            let why = format!("'{NEWER}' for {ACTION} action must not be greater than 100");
            Err(invalid(NEWER, &newer.to_string(), why))
        }
    }
}

fn abort(element: &Element) -> Result<u32, Fault> {
    element.refuse_unknown(&["DaysAfterInitiation"])?;
    positive(element, "DaysAfterInitiation", "AbortIncompleteMultipartUpload")?
        .ok_or_else(|| malformed("AbortIncompleteMultipartUpload needs DaysAfterInitiation"))
}

/// Parses the child element `name` as a number of at least 1; `None` if it is absent. `action`
/// names the element of the rule in error messages.
fn positive(element: &Element, name: &'static str, action: &str) -> Result<Option<u32>, Fault> {
    let Some(text) = element.value(name)? else { return Ok(None) };
    let number: i32 = text.parse().map_err(|_| malformed("days or versions are not a number"))?;
    if number < 1 {
        let why = format!("'{name}' for {action} action must be a positive integer");
        return Err(invalid(name, text, why));
    }
    Ok(Some(number.unsigned_abs()))
}

/// Returns the text of the only child with this name, white space included, because it is part of
/// keys and tags. Text that the response could not show unchanged is refused.
fn text(element: &Element, name: &str) -> Result<Option<String>, Fault> {
    let Some(child) = element.child(name)? else { return Ok(None) };
    // The text would be empty, and an empty prefix matches all objects.
    if !child.children().is_empty() {
        return Err(malformed("an element contains other elements instead of text"));
    }
    if !child.text().chars().all(is_writable) {
        return Err(malformed("the text contains a character that XML does not allow"));
    }
    Ok(Some(child.text().to_owned()))
}

fn refuse(why: &'static str) -> Fault {
    Fault::because(Code::InvalidRequest, why)
}

fn invalid(
    name: &'static str,
    value: &str,
    why: impl Into<std::borrow::Cow<'static, str>>,
) -> Fault {
    Fault::because(Code::InvalidArgument, why)
        .with("ArgumentName", name)
        .with("ArgumentValue", value)
}

use proptest::prelude::*;
use time::macros::datetime;

use super::{acting, document, filtered, parse, rule};
use crate::lifecycle::{
    LifecycleConfiguration, NoncurrentExpiration, Rule, RuleExpiration, RuleFilter, RulePredicate,
    RuleScope,
};

#[track_caller]
fn reads_back(rules: &[&str]) {
    assert_eq!(parse(rules).expect("rules").to_xml(), document(rules));
}

#[test]
fn s3_b9_a_configuration_round_trips() {
    reads_back(&[
        "<ID>my &lt;id&gt;</ID><Filter><And><Prefix>logs/</Prefix>\
         <Tag><Key>a</Key><Value>1</Value></Tag><Tag><Key>b</Key><Value></Value></Tag>\
         <ObjectSizeGreaterThan>0</ObjectSizeGreaterThan>\
         <ObjectSizeLessThan>1099511627776000</ObjectSizeLessThan></And></Filter>\
         <Status>Disabled</Status><Expiration><Days>365</Days></Expiration>\
         <NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays>\
         <NewerNoncurrentVersions>100</NewerNoncurrentVersions></NoncurrentVersionExpiration>",
        "<ID>uploads</ID><Filter><Prefix></Prefix></Filter><Status>Enabled</Status>\
         <Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>\
         <AbortIncompleteMultipartUpload><DaysAfterInitiation>7</DaysAfterInitiation>\
         </AbortIncompleteMultipartUpload>",
        &filtered("<Tag><Key>k</Key><Value> v </Value></Tag>"),
        &filtered("<ObjectSizeLessThan>1</ObjectSizeLessThan>"),
        &filtered("<ObjectSizeGreaterThan>131072</ObjectSizeGreaterThan>"),
        &filtered(""),
        &acting("<Expiration><Date>2024-02-29T00:00:00.000Z</Date></Expiration>"),
    ]);
}

#[test]
fn s3_b9_the_older_form_round_trips() {
    reads_back(&[
        "<ID>rule1</ID><Prefix>test1/</Prefix><Status>Enabled</Status>\
         <Expiration><Days>1</Days></Expiration>",
        "<Prefix></Prefix><Status>Disabled</Status>\
         <NoncurrentVersionExpiration><NoncurrentDays>3</NoncurrentDays>\
         </NoncurrentVersionExpiration>",
    ]);
}

#[test]
fn s3_b9_elements_are_written_in_the_order_of_s3() {
    let put = "<Expiration><Date>2025-12-31T18:00:00-06:00</Date></Expiration>\
               <Status>Enabled</Status><Filter><And>\
               <ObjectSizeLessThan>9</ObjectSizeLessThan><Tag><Value>v</Value><Key>k</Key></Tag>\
               <Prefix>p</Prefix></And></Filter><ID>x</ID>";
    let shown = "<ID>x</ID><Filter><And><Prefix>p</Prefix><Tag><Key>k</Key><Value>v</Value></Tag>\
                 <ObjectSizeLessThan>9</ObjectSizeLessThan></And></Filter><Status>Enabled</Status>\
                 <Expiration><Date>2026-01-01T00:00:00.000Z</Date></Expiration>";
    assert_eq!(parse(&[put]).unwrap().to_xml(), document(&[shown]));
}

#[test]
fn s3_b9_a_rule_is_parsed_into_its_fields() {
    let read = rule(
        "\n <ID>all</ID>\n <Status> Enabled </Status> <Filter>\n <And> <Prefix> p\n</Prefix>\n \
         <ObjectSizeGreaterThan> 5 </ObjectSizeGreaterThan> </And> </Filter>\n <Expiration> \
         <Days> 30 </Days> </Expiration> <NoncurrentVersionExpiration> <NoncurrentDays>2\
         </NoncurrentDays> </NoncurrentVersionExpiration>",
    );
    assert_eq!(
        read,
        Rule {
            id: Some("all".to_owned()),
            enabled: true,
            scope: RuleScope::Filter(RuleFilter {
                predicates: vec![
                    // White space is part of a key.
                    RulePredicate::Prefix(" p\n".to_owned()),
                    RulePredicate::SizeGreaterThan(5),
                ],
            }),
            expiration: Some(RuleExpiration::Days(30)),
            noncurrent_expiration: Some(NoncurrentExpiration { days: 2, newer_versions: None }),
            abort_uploads_after_days: None,
        }
    );
}

#[test]
fn s3_b9_a_rule_without_an_id_has_none() {
    assert_eq!(rule(&filtered("")).id, None);
    // An empty id counts as absent, so several rules may have one.
    let unnamed = format!("<ID></ID>{}", filtered(""));
    let read = parse(&[&unnamed, &unnamed]).unwrap();
    assert!(read.rules.iter().all(|rule| rule.id.is_none()));
    assert_eq!(read.to_xml(), document(&[&filtered(""), &filtered("")]));
}

#[test]
fn s3_b9_dates_in_any_format_are_midnight_utc() {
    for text in [
        "2024-01-08T00:00:00Z",
        "2024-01-08T00:00:00",
        "2024-01-08T00:00:00.000Z",
        "2024-01-08T06:00:00+06:00",
    ] {
        let read = rule(&acting(&format!("<Expiration><Date>{text}</Date></Expiration>")));
        let date = datetime!(2024-01-08 00:00 UTC);
        assert_eq!(read.expiration, Some(RuleExpiration::Date(date)), "{text}");
    }
}

#[test]
fn s3_b9_the_largest_configuration_is_accepted() {
    let tags = (0..10).map(|n| format!("<Tag><Key>k{n}</Key><Value>v</Value></Tag>"));
    let tags = tags.collect::<Vec<_>>().concat();
    let rule = format!(
        "<Filter><And><Prefix>{}</Prefix>{tags}<ObjectSizeGreaterThan>1</ObjectSizeGreaterThan>\
         <ObjectSizeLessThan>3</ObjectSizeLessThan></And></Filter><Status>Enabled</Status>\
         <Expiration><Days>2147483647</Days></Expiration><NoncurrentVersionExpiration>\
         <NoncurrentDays>1</NoncurrentDays><NewerNoncurrentVersions>1</NewerNoncurrentVersions>\
         </NoncurrentVersionExpiration>",
        "p".repeat(100),
    );
    reads_back(&[rule.as_str(); LifecycleConfiguration::RULES_MAX]);
    let id = "ä".repeat(255);
    let prefix = "p".repeat(1_024);
    reads_back(&[&format!("<ID>{id}</ID>{}", filtered(&format!("<Prefix>{prefix}</Prefix>")))]);
}

fn word() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z/ <&>\"'\r\n\té]{1,8}", "[ -~]{1,20}"]
}

fn filter() -> impl Strategy<Value = RuleFilter> {
    let tags = proptest::collection::btree_map(word(), "[ -~]{0,9}", 0..4);
    let greater = proptest::option::of(0..1_000_u64);
    let less = proptest::option::of(1_001..=LifecycleConfiguration::SIZE_MAX);
    (proptest::option::of(word()), tags, greater, less).prop_map(|(prefix, tags, greater, less)| {
        let mut predicates: Vec<RulePredicate> = Vec::new();
        predicates.extend(prefix.map(RulePredicate::Prefix));
        let tags = tags.into_iter().map(|(key, value)| RulePredicate::Tag { key, value });
        predicates.extend(tags);
        predicates.extend(greater.map(RulePredicate::SizeGreaterThan));
        predicates.extend(less.map(RulePredicate::SizeLessThan));
        RuleFilter { predicates }
    })
}

fn any_rule() -> impl Strategy<Value = Rule> {
    let expiration = prop_oneof![
        (1..=i32::MAX.unsigned_abs()).prop_map(RuleExpiration::Days),
        (0..100_000_i64).prop_map(|days| {
            let date = time::OffsetDateTime::from_unix_timestamp(days * 86_400);
            RuleExpiration::Date(date.expect("before the year 9999"))
        }),
    ];
    let newer = proptest::option::of(1..=LifecycleConfiguration::NEWER_VERSIONS_MAX);
    let noncurrent = (1..9_999_u32, newer)
        .prop_map(|(days, newer_versions)| NoncurrentExpiration { days, newer_versions });
    (any::<bool>(), filter(), expiration, proptest::option::of(noncurrent)).prop_map(
        |(enabled, filter, expiration, noncurrent_expiration)| Rule {
            id: None,
            enabled,
            scope: RuleScope::Filter(filter),
            expiration: Some(expiration),
            noncurrent_expiration,
            abort_uploads_after_days: None,
        },
    )
}

proptest! {
    #[test]
    fn s3_b9_each_configuration_round_trips(
        rules in proptest::collection::vec(any_rule(), 1..5),
        ids in proptest::collection::btree_set(word(), 5),
    ) {
        let mut rules = rules;
        // Some have an id, and some have none.
        for (rule, id) in rules.iter_mut().zip(ids).step_by(2) {
            rule.id = Some(id);
        }
        let put = LifecycleConfiguration { rules };
        let text = put.to_xml();
        let read = LifecycleConfiguration::parse(text.as_bytes());
        prop_assert_eq!(read.as_ref(), Ok(&put), "{}", text);
    }
}

use proptest::prelude::*;

use super::{acting, document, filtered, parse};
use crate::lifecycle::LifecycleConfiguration;
use crate::{Code, Fault};

const MALFORMED: &str = Code::MalformedXML.message();
const TAG: &str = "<Tag><Key>k</Key><Value>v</Value></Tag>";

#[track_caller]
fn check(result: Result<LifecycleConfiguration, Fault>, code: Code, message: &str) -> Fault {
    let fault = result.expect_err("must be refused");
    assert_eq!((fault.code, &*fault.message), (code, message), "{fault}");
    fault
}

#[track_caller]
fn malformed(rule: &str) {
    check(parse(&[rule]), Code::MalformedXML, MALFORMED);
}

#[track_caller]
fn refused(rule: &str, message: &str) {
    check(parse(&[rule]), Code::InvalidRequest, message);
}

/// Expects `InvalidArgument` with this argument.
#[track_caller]
fn invalid(rule: &str, message: &str, name: &str, value: &str) {
    let fault = check(parse(&[rule]), Code::InvalidArgument, message);
    let extra = [("ArgumentName", name.to_owned()), ("ArgumentValue", value.to_owned())];
    assert_eq!(fault.extra, extra);
}

/// A rule with this filter and this action.
fn both(filter: &str, action: &str) -> String {
    format!("<Filter>{filter}</Filter><Status>Enabled</Status>{action}")
}

#[test]
fn s3_b9_a_malformed_configuration_is_refused() {
    for text in [
        "",
        " ",
        "<LifecycleConfiguration>",
        "<Lifecycle/>",
        "<LifecycleConfiguration>x</LifecycleConfiguration>",
        "<LifecycleConfiguration><Foo/></LifecycleConfiguration>",
    ] {
        check(LifecycleConfiguration::parse(text.as_bytes()), Code::MalformedXML, MALFORMED);
    }
    let foreign = document(&[&filtered("")]).replace("</Rule>", "</Rule><Foo/>");
    check(LifecycleConfiguration::parse(foreign.as_bytes()), Code::MalformedXML, MALFORMED);
    let long = document(&[&filtered("")]) + &" ".repeat(1 << 20);
    let fault = LifecycleConfiguration::parse(long.as_bytes()).expect_err("too long");
    assert_eq!(fault.code, Code::MaxMessageLengthExceeded);
}

#[test]
fn s3_b9_a_configuration_has_1_to_1000_rules() {
    check(parse(&[]), Code::InvalidRequest, "At least one lifecycle rule must be specified.");
    let rule = filtered("");
    assert!(parse(&[rule.as_str(); 1_000]).is_ok());
    check(
        parse(&[rule.as_str(); 1_001]),
        Code::InvalidRequest,
        "The number of lifecycle rules must not exceed the allowed limit of 1000 rules.",
    );
}

#[test]
fn s3_b9_long_or_repeated_ids_are_refused() {
    let named = |id: &str| format!("<ID>{id}</ID>{}", filtered(""));
    assert!(parse(&[&named(&"ä".repeat(255)), &named("a")]).is_ok());
    let fault = check(
        parse(&[&named(&"a".repeat(256))]),
        Code::InvalidArgument,
        "ID length should not exceed allowed limit of 255",
    );
    assert_eq!(fault.extra, [("ArgumentName", "ID".to_owned())]);
    let fault = check(
        parse(&[&named("rule1"), &named("other"), &named("rule1")]),
        Code::InvalidArgument,
        "Rule ID must be unique. Found same ID for more than one rule",
    );
    assert_eq!(fault.extra[1], ("ArgumentValue", "rule1".to_owned()));
    // Ids differ if any character differs.
    assert!(parse(&[&named("rule1"), &named("Rule1"), &named("rule1 ")]).is_ok());
    malformed(&format!("<ID>a</ID>{}", named("b")));
    malformed(&named("a\u{1}"));
    malformed(&named("<b/>"));
}

#[test]
fn s3_b9_a_status_is_enabled_or_disabled() {
    let action = "<Filter/><Expiration><Days>1</Days></Expiration>";
    for status in ["enabled", "disabled", "invalid", "Suspended", ""] {
        malformed(&format!("{action}<Status>{status}</Status>"));
    }
    malformed(action);
    malformed(&format!("{action}<Status>Enabled</Status><Status>Enabled</Status>"));
}

#[test]
fn s3_b9_a_rule_needs_either_a_prefix_or_a_filter() {
    let rest = "<Status>Enabled</Status><Expiration><Days>1</Days></Expiration>";
    malformed(rest);
    malformed(&format!("<Prefix>a</Prefix><Filter/>{rest}"));
    malformed(&format!("<Prefix/><Filter><Prefix/></Filter>{rest}"));
    malformed(&format!("<Filter/><Filter/>{rest}"));
    malformed(&format!("<Prefix/><Prefix/>{rest}"));
    malformed(&format!("<Filter/>{rest}<Foo/>"));
    malformed(&format!("<Filter/>{rest}x"));
}

#[test]
fn s3_b9_a_malformed_filter_never_matches_all_objects() {
    malformed(&filtered("logs/"));
    malformed(&filtered("<Prefix><Foo/></Prefix>"));
    malformed(&filtered("<And>logs/</And>"));
    malformed(&filtered("<Foo/>"));
    malformed(&filtered("<Prefix>&#1;</Prefix>"));
    let rest = "<Status>Enabled</Status><Expiration><Days>1</Days></Expiration>";
    malformed(&format!("<Prefix><Prefix>a</Prefix></Prefix>{rest}"));
}

#[test]
fn s3_b9_several_predicates_must_be_in_and() {
    let [prefix, larger] =
        ["<Prefix>a</Prefix>", "<ObjectSizeGreaterThan>1</ObjectSizeGreaterThan>"];
    let smaller = "<ObjectSizeLessThan>5</ObjectSizeLessThan>";
    malformed(&filtered(&format!("{prefix}{TAG}")));
    malformed(&filtered(&format!("{prefix}{larger}")));
    malformed(&filtered(&format!("{larger}{smaller}")));
    malformed(&filtered(&format!("{TAG}{TAG}").replacen('k', "j", 1)));
    malformed(&filtered(&format!("<And>{prefix}{TAG}</And>{prefix}")));
    malformed(&filtered(&format!("<And>{prefix}{TAG}</And><And/>")));
    malformed(&filtered(&format!("<And><And>{prefix}{TAG}</And>{prefix}</And>")));
    for one in ["", prefix, TAG, larger, smaller] {
        malformed(&filtered(&format!("<And>{one}</And>")));
        assert!(parse(&[&filtered(one)]).is_ok(), "{one}");
    }
    // An empty prefix counts for one.
    for two in [
        format!("<Prefix/>{TAG}"),
        format!("{larger}{smaller}"),
        format!("{TAG}<Tag><Key>j</Key><Value/></Tag>"),
    ] {
        assert!(parse(&[&filtered(&format!("<And>{two}</And>"))]).is_ok(), "{two}");
    }
}

#[test]
fn s3_b9_invalid_tags_in_a_filter_are_refused() {
    let tag = |key: &str, value: &str| {
        filtered(&format!("<Tag><Key>{key}</Key><Value>{value}</Value></Tag>"))
    };
    assert!(parse(&[&tag(&"ä".repeat(128), &"ä".repeat(256))]).is_ok());
    let key = "A Tag's Key must be a length between 1 and 128.";
    refused(&tag("", "v"), key);
    refused(&tag(&"k".repeat(129), "v"), key);
    refused(&tag("k", &"v".repeat(257)), "A Tag's Value must be a length between 0 and 256.");
    malformed(&filtered("<Tag/>"));
    malformed(&filtered("<Tag><Key>k</Key></Tag>"));
    malformed(&filtered("<Tag><Value>v</Value></Tag>"));
    malformed(&filtered("<Tag><Key>k</Key><Key>k</Key><Value>v</Value></Tag>"));
    malformed(&filtered("<Tag><Key>k</Key><Value>v</Value><Foo/></Tag>"));
    malformed(&tag("\u{1}", "v"));
    let twice = format!("<And>{TAG}<Tag><Key>k</Key><Value>w</Value></Tag></And>");
    refused(&filtered(&twice), "Duplicate Tag Keys are not allowed.");
}

#[test]
fn s3_b9_prefixes_and_sizes_have_the_limits_of_objects() {
    let prefix = |length: usize| format!("<Prefix>{}</Prefix>", "p".repeat(length));
    assert!(parse(&[&filtered(&prefix(1_024))]).is_ok());
    refused(&filtered(&prefix(1_025)), "The maximum size of a prefix is 1024.");
    let greater =
        |size: &str| filtered(&format!("<ObjectSizeGreaterThan>{size}</ObjectSizeGreaterThan>"));
    let less = |size: &str| filtered(&format!("<ObjectSizeLessThan>{size}</ObjectSizeLessThan>"));
    for size in ["-1", "1099511627776001", "9223372036854775807", "-9223372036854775808"] {
        let range = "'ObjectSizeGreaterThan' should be between 0 and 1099511627776000.";
        refused(&greater(size), range);
        refused(&less(size), "'ObjectSizeLessThan' should be between 1 and 1099511627776000.");
    }
    refused(&less("0"), "'ObjectSizeLessThan' should be between 1 and 1099511627776000.");
    for size in ["", "many", "1.5", "0x10", "9223372036854775808"] {
        malformed(&greater(size));
        malformed(&less(size));
    }
    let between = |greater: u32, less: u32| {
        filtered(&format!(
            "<And><ObjectSizeGreaterThan>{greater}</ObjectSizeGreaterThan>\
             <ObjectSizeLessThan>{less}</ObjectSizeLessThan></And>"
        ))
    };
    assert!(parse(&[&between(9, 10)]).is_ok());
    let order = "'ObjectSizeLessThan' has to be a value greater than 'ObjectSizeGreaterThan'.";
    refused(&between(10, 10), order);
    refused(&between(11, 10), order);
}

#[test]
fn s3_b9_a_rule_needs_an_action() {
    refused(&acting(""), "At least one action needs to be specified in a rule");
    for empty in
        ["<Expiration/>", "<NoncurrentVersionExpiration/>", "<AbortIncompleteMultipartUpload/>"]
    {
        malformed(&acting(empty));
    }
}

#[test]
fn s3_b9_transitions_are_not_implemented() {
    for name in ["Transition", "NoncurrentVersionTransition"] {
        let transition = format!("<{name}><StorageClass>GLACIER</StorageClass></{name}>");
        let action = format!("{transition}{transition}<Expiration><Days>1</Days></Expiration>");
        let fault =
            check(parse(&[&acting(&action)]), Code::NotImplemented, Code::NotImplemented.message());
        assert_eq!(fault.extra, [("Feature", name.to_owned())]);
    }
}

#[test]
fn s3_b9_an_expiration_needs_exactly_one_time() {
    let [days, date, marker] = [
        "<Days>1</Days>",
        "<Date>2026-01-01T00:00:00Z</Date>",
        "<ExpiredObjectDeleteMarker>false</ExpiredObjectDeleteMarker>",
    ];
    let expiring = |inside: &str| acting(&format!("<Expiration>{inside}</Expiration>"));
    for one in [days, date, marker] {
        assert!(parse(&[&expiring(one)]).is_ok(), "{one}");
        malformed(&expiring(&format!("{one}{one}")));
        malformed(&expiring(&format!("{one}<Foo/>")));
        malformed(&expiring(&format!("{one}x")));
        let twice = format!("<Expiration>{one}</Expiration><Expiration>{one}</Expiration>");
        malformed(&acting(&twice));
    }
    for (one, other) in [(days, date), (days, marker), (date, marker)] {
        malformed(&expiring(&format!("{one}{other}")));
    }
    for value in ["", "yes", "1", "True"] {
        let marker = format!("<ExpiredObjectDeleteMarker>{value}</ExpiredObjectDeleteMarker>");
        malformed(&expiring(&marker));
    }
}

#[test]
fn s3_b9_days_and_versions_must_be_at_least_1() {
    for (action, name) in [
        ("Expiration", "Days"),
        ("NoncurrentVersionExpiration", "NoncurrentDays"),
        ("AbortIncompleteMultipartUpload", "DaysAfterInitiation"),
    ] {
        let with = |days: &str| acting(&format!("<{action}><{name}>{days}</{name}></{action}>"));
        assert!(parse(&[&with("1")]).is_ok());
        assert!(parse(&[&with("2147483647")]).is_ok());
        for days in ["0", "-1", "-2147483648"] {
            let message = format!("'{name}' for {action} action must be a positive integer");
            invalid(&with(days), &message, name, days);
        }
        for days in ["", "soon", "1.5", "1e3", "2147483648", "3323232323232323232323232323"] {
            malformed(&with(days));
        }
        malformed(&acting(&format!("<{action}><{name}>1</{name}><Foo/></{action}>")));
    }
    let newer = |count: &str| {
        acting(&format!(
            "<NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays>\
             <NewerNoncurrentVersions>{count}</NewerNoncurrentVersions>\
             </NoncurrentVersionExpiration>"
        ))
    };
    assert!(parse(&[&newer("1")]).is_ok() && parse(&[&newer("100")]).is_ok());
    let name = "NewerNoncurrentVersions";
    let action = "NoncurrentVersionExpiration";
    let message = format!("'{name}' for {action} action must be a positive integer");
    invalid(&newer("0"), &message, name, "0");
    let message = format!("'{name}' for {action} action must not be greater than 100");
    invalid(&newer("101"), &message, name, "101");
    malformed(&newer("all"));
    // A number of retained versions needs an age.
    let spared = "<NewerNoncurrentVersions>1</NewerNoncurrentVersions>";
    malformed(&acting(&format!("<{action}>{spared}</{action}>")));
}

#[test]
fn s3_b9_a_date_must_be_midnight_utc() {
    let with = |date: &str| acting(&format!("<Expiration><Date>{date}</Date></Expiration>"));
    for date in [
        "2023-02-18T01:00:00",
        "2024-01-08T12:34:56Z",
        "2024-01-08T00:00:00.123Z",
        "2024-01-08T00:00:00.000000001Z",
        "2024-01-08T00:00:00+06:00",
        "2024-01-07T23:59:59Z",
    ] {
        invalid(&with(date), "'Date' must be at midnight GMT", "Date", date);
    }
    for date in [
        "",
        "2024-01-08",
        "20200101",
        "2023-02-29T00:00:00Z",
        "2024-01-08T00:00:00+34:00",
        "Fri, 01 Jan 2016 00:00:00 GMT",
    ] {
        malformed(&with(date));
    }
}

#[test]
fn s3_b9_marker_and_upload_actions_refuse_tags_and_sizes() {
    let marker =
        "<Expiration><ExpiredObjectDeleteMarker>false</ExpiredObjectDeleteMarker></Expiration>";
    let abort = "<AbortIncompleteMultipartUpload><DaysAfterInitiation>1</DaysAfterInitiation>\
                 </AbortIncompleteMultipartUpload>";
    for (action, name) in
        [(marker, "ExpiredObjectDeleteMarker"), (abort, "AbortIncompleteMultipartUpload")]
    {
        let tagged = format!("{name} cannot be specified with Tags.");
        refused(&both(TAG, action), &tagged);
        refused(&both(&format!("<And><Prefix>a</Prefix>{TAG}</And>"), action), &tagged);
        let sized = format!("{name} cannot be specified with Object Size.");
        for size in [
            "<ObjectSizeGreaterThan>0</ObjectSizeGreaterThan>",
            "<ObjectSizeLessThan>5</ObjectSizeLessThan>",
            "<And><Prefix/><ObjectSizeLessThan>5</ObjectSizeLessThan></And>",
        ] {
            refused(&both(size, action), &sized);
            // Also together with an action that accepts the predicate.
            let more = "<NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays>\
                        </NoncurrentVersionExpiration>";
            refused(&both(size, &format!("{action}{more}")), &sized);
        }
        assert!(parse(&[&both("<Prefix>a</Prefix>", action)]).is_ok());
    }
}

#[test]
fn s3_b9_rules_of_both_forms_are_refused() {
    let new = filtered("");
    let old = |action: &str| format!("<Prefix>a</Prefix><Status>Enabled</Status>{action}");
    let days = "<Expiration><Days>1</Days></Expiration>";
    check(
        parse(&[&old(days), &new]),
        Code::InvalidRequest,
        "Filter element can only be used in Lifecycle V2.",
    );
    check(
        parse(&[&new, &old(days)]),
        Code::InvalidRequest,
        "Base level prefix cannot be used in Lifecycle V2, prefixes are only supported in the \
         Filter.",
    );
    refused(
        &old("<NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays>\
              <NewerNoncurrentVersions>1</NewerNoncurrentVersions></NoncurrentVersionExpiration>"),
        "NewerNoncurrentVersions element can only be used in Lifecycle V2.",
    );
}

proptest! {
    #[test]
    fn s3_s16_reading_never_panics(bytes in any::<Vec<u8>>(), text in any::<String>()) {
        let _ = LifecycleConfiguration::parse(&bytes);
        let _ = parse(&[&text]);
        let _ = parse(&[&filtered(&text)]);
        let _ = parse(&[&acting(&format!("<Expiration><Date>{text}</Date></Expiration>"))]);
        let _ = parse(&[&acting(&format!("<Expiration><Days>{text}</Days></Expiration>"))]);
    }
}

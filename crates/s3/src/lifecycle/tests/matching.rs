use super::{filtered, rule};

fn tags(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn s3_b9_an_empty_filter_matches_all_objects() {
    for filter in ["", "<Prefix></Prefix>", "<Prefix/>"] {
        let rule = rule(&filtered(filter));
        assert_eq!(rule.prefix(), "");
        assert!(rule.matches("a", 0, &[]) && rule.matches("", u64::MAX, &tags(&[("k", "v")])));
    }
}

#[test]
fn s3_b9_a_prefix_filter_matches_keys_with_the_prefix() {
    let old = "<Prefix>logs/</Prefix><Status>Disabled</Status>\
               <Expiration><Days>1</Days></Expiration>";
    for text in [old, &filtered("<Prefix>logs/</Prefix>")] {
        let rule = rule(text);
        assert_eq!(rule.prefix(), "logs/");
        for (key, expected) in [
            ("logs/", true),
            ("logs/a", true),
            ("logs/a/b", true),
            ("logs", false),
            ("log/a", false),
            ("Logs/a", false),
            ("a/logs/b", false),
            ("", false),
        ] {
            assert_eq!(rule.matches(key, 5, &tags(&[("k", "v")])), expected, "{key}");
        }
    }
}

#[test]
fn s3_b9_a_tag_filter_matches_objects_with_the_tag() {
    let rule = rule(&filtered("<Tag><Key>k</Key><Value>v</Value></Tag>"));
    for (list, expected) in [
        (&[("k", "v")][..], true),
        (&[("a", "b"), ("k", "v")], true),
        (&[("k", "w")], false),
        (&[("K", "v")], false),
        (&[("v", "k")], false),
        (&[("k", "")], false),
        (&[], false),
    ] {
        assert_eq!(rule.matches("key", 0, &tags(list)), expected, "{list:?}");
    }
}

#[test]
fn s3_b9_size_filters_exclude_their_bounds() {
    let larger = rule(&filtered("<ObjectSizeGreaterThan>10</ObjectSizeGreaterThan>"));
    let smaller = rule(&filtered("<ObjectSizeLessThan>10</ObjectSizeLessThan>"));
    for (size, expected) in
        [(0, (false, true)), (9, (false, true)), (10, (false, false)), (11, (true, false))]
    {
        let found = (larger.matches("a", size, &[]), smaller.matches("a", size, &[]));
        assert_eq!(found, expected, "{size}");
    }
    let empty = rule(&filtered("<ObjectSizeLessThan>1</ObjectSizeLessThan>"));
    assert!(empty.matches("a", 0, &[]) && !empty.matches("a", 1, &[]));
    let not_empty = rule(&filtered("<ObjectSizeGreaterThan>0</ObjectSizeGreaterThan>"));
    assert!(!not_empty.matches("a", 0, &[]) && not_empty.matches("a", 1, &[]));
}

#[test]
fn s3_b9_all_predicates_of_and_must_hold() {
    let rule = rule(&filtered(
        "<And><Prefix>p/</Prefix><Tag><Key>a</Key><Value>1</Value></Tag>\
         <Tag><Key>b</Key><Value>2</Value></Tag><ObjectSizeGreaterThan>3</ObjectSizeGreaterThan>\
         <ObjectSizeLessThan>6</ObjectSizeLessThan></And>",
    ));
    assert_eq!(rule.prefix(), "p/");
    let both = tags(&[("b", "2"), ("c", "3"), ("a", "1")]);
    assert!(rule.matches("p/x", 4, &both) && rule.matches("p/x", 5, &both));
    assert!(!rule.matches("q/x", 4, &both));
    assert!(!rule.matches("p/x", 3, &both) && !rule.matches("p/x", 6, &both));
    assert!(!rule.matches("p/x", 4, &tags(&[("a", "1")])));
    assert!(!rule.matches("p/x", 4, &tags(&[("a", "1"), ("b", "1")])));
    assert!(!rule.matches("p/x", 4, &[]));
}

use http::HeaderMap;

use super::Metadata;
use crate::Code;
use crate::request::Fields;

#[test]
fn s3_o5_a_name_that_no_header_can_have_is_refused() {
    let headers = HeaderMap::new();
    let parse = |name: &str| {
        let hoisted = [(format!("x-amz-meta-{name}"), "1".to_owned())];
        Metadata::parse(Fields::new(&headers, &hoisted))
    };
    for good in ["a", "a-b_c.d", "!#$%&'*+.^`|~0"] {
        assert_eq!(parse(good).expect(good).user, [(good.to_owned(), "1".to_owned())]);
    }
    for bad in ["", "ä", "a b", "a:b", "a\nb", "a/b", "(a)", "a\u{7f}"] {
        assert_eq!(parse(bad).expect_err(bad).code, Code::InvalidArgument);
    }
}

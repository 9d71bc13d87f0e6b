//! Tests of the crate's public values: requests, decisions and documents.

mod documents;
mod reads;
mod reference;
mod requests;
mod writes;

use http::{HeaderMap, HeaderName, HeaderValue};
use s3::request::{Arguments, Fields, Query};
use s3::{Code, Fault};

/// The query and the headers of a request under test.
struct TestRequest {
    query: Query,
    headers: HeaderMap,
    anonymous: bool,
}

impl TestRequest {
    fn new(query: &str, headers: &[(&str, &str)]) -> TestRequest {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let name: HeaderName = name.parse().expect("a header name");
            map.append(name, HeaderValue::from_bytes(value.as_bytes()).expect("a header value"));
        }
        TestRequest { query: Query::parse(query).expect("a query"), headers: map, anonymous: false }
    }

    fn arguments(&self) -> Arguments<'_> {
        let fields = Fields::new(&self.headers, &[]);
        Arguments { query: &self.query, fields, anonymous: self.anonymous }
    }
}

#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, Fault>, code: Code) {
    assert_eq!(result.expect_err("must be refused").code, code);
}

use gateway::Served;
use http::{HeaderMap, HeaderValue};

use super::object_size;

/// Returns the size that an entry has for an operation whose response has these headers.
fn size(operation: &'static str, headers: &[(&'static str, &'static str)]) -> Option<u64> {
    let served = Served { operation, ..Served::default() };
    let mut response = HeaderMap::new();
    for (name, value) in headers {
        response.insert(*name, HeaderValue::from_static(value));
    }
    object_size(&served, &response)
}

#[test]
fn the_size_of_an_object_is_that_of_the_whole_object() {
    assert_eq!(size("GetObject", &[("content-length", "12")]), Some(12));
    let ranged = [("content-length", "2"), ("content-range", "bytes 0-1/12")];
    assert_eq!(size("GetObject", &ranged), Some(12));
    assert_eq!(size("PutObject", &[("content-length", "0"), ("x-amz-object-size", "7")]), Some(7));
    assert_eq!(size("ListObjectsV2", &[("content-length", "300")]), None, "a listing is no object");
}

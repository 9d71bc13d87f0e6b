use s3::BucketName;

use super::RequestHost;

fn url(name: Option<&str>, names_bucket: bool) -> String {
    let host = RequestHost { name: name.map(Into::into), names_bucket };
    host.url(names_bucket, &BucketName::parse("photos").expect("a name"), "a%20b")
}

#[test]
fn location_of_an_object_has_the_style_of_the_request() {
    assert_eq!(url(Some("s3.example:9000"), false), "http://s3.example:9000/photos/a%20b");
    assert_eq!(url(Some("[::1]:9000"), false), "http://[::1]:9000/photos/a%20b");
    assert_eq!(url(Some("photos.s3.example"), true), "https://photos.s3.example/a%20b");
}

#[test]
fn a_host_header_that_is_no_host_name_is_not_copied() {
    for name in [Some("a/../b?"), Some("<script>"), Some("user@elsewhere"), Some("a b"), None] {
        assert_eq!(url(name, false), "http://localhost/photos/a%20b", "{name:?}");
    }
}

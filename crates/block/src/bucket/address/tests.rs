use super::*;
use crate::SecretKey;

fn find(endpoint: Option<&str>, path_style: bool, bucket: &str, prefix: &str) -> Address {
    let options = BucketOptions {
        endpoint: endpoint.map(str::to_owned),
        region: "eu-west-3".to_owned(),
        path_style,
        ..BucketOptions::new(bucket, "access", SecretKey::new("secret"))
    };
    Address::find(&options, prefix).expect("there can be such a bucket")
}

/// Checks the endpoint, the `Host` header, and the path of the name `a`.
#[track_caller]
fn check(found: &Address, endpoint: &str, host: &str, path: &str) {
    assert_eq!(found.endpoint, endpoint);
    assert_eq!(found.host, host);
    assert_eq!(found.path("a"), path);
    assert_eq!((found.region.as_str(), found.service.as_str()), ("eu-west-3", "s3"));
}

#[test]
fn path_style_puts_the_bucket_in_the_path() {
    let found = find(Some("http://minio.lan:9000"), true, "stones", "");
    check(&found, "http://minio.lan:9000/", "minio.lan:9000", "/stones/a");
    let found = find(Some("https://minio.lan:443/"), true, "stones", "x/y/");
    check(&found, "https://minio.lan/", "minio.lan", "/stones/x/y/a");
}

#[test]
fn bucket_is_in_the_host_name_where_that_is_valid() {
    let found = find(Some("http://minio.lan:9000"), false, "stones", "x/");
    check(&found, "http://stones.minio.lan:9000/", "stones.minio.lan:9000", "/x/a");
    let found = find(None, false, "stones", "");
    let host = "stones.s3.eu-west-3.amazonaws.com";
    check(&found, &format!("https://{host}/"), host, "/a");
    // No certificate is valid for such a host.
    let found = find(None, false, "of.stone", "");
    let host = "s3.eu-west-3.amazonaws.com";
    check(&found, &format!("https://{host}/"), host, "/of.stone/a");
}

#[test]
fn ip_address_has_the_bucket_in_the_path() {
    let found = find(Some("http://10.0.0.7:9000"), false, "stones", "");
    check(&found, "http://10.0.0.7:9000/", "10.0.0.7:9000", "/stones/a");
    let found = find(Some("http://[::1]:9000"), true, "stones", "");
    check(&found, "http://[::1]:9000/", "[::1]:9000", "/stones/a");
    let found = find(Some("http://[::1]"), true, "stones", "");
    check(&found, "http://[::1]/", "[::1]", "/stones/a");
}

#[test]
fn a_path_is_encoded_as_it_is_signed() {
    let found = find(Some("http://minio.lan/store/"), true, "stones", "a b/ä+%/~_-./");
    let path = "/store/stones/a%20b/%C3%A4%2B%25/~_-./a";
    check(&found, "http://minio.lan/", "minio.lan", path);
}

#[test]
fn invalid_address_is_an_error() {
    let options = |endpoint: &str| BucketOptions {
        endpoint: Some(endpoint.to_owned()),
        path_style: true,
        ..BucketOptions::new("stones", "access", SecretKey::new("secret"))
    };
    for wrong in ["http://a b/", "http://:80", "http://host/?query=1"] {
        Address::find(&options(wrong), "").expect_err(wrong);
    }
}

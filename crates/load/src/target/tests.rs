use super::*;

fn target(endpoint: &str) -> TargetBucket {
    TargetBucket {
        endpoint: endpoint.to_owned(),
        bucket: "b".to_owned(),
        region: "us-east-1".to_owned(),
        credentials: KeyPair {
            access_key: "a".to_owned(),
            secret_key: "s".to_owned(),
            session_token: None,
        },
        authority: None,
        unsigned: false,
    }
}

#[test]
fn the_host_header_has_the_port_unless_it_is_the_default() {
    let address = |endpoint| target(endpoint).address().expect("an endpoint");
    assert_eq!(address("http://127.0.0.1:9000").host, "127.0.0.1:9000");
    assert_eq!(address("http://127.0.0.1:9000/").socket, "127.0.0.1:9000");
    assert_eq!(address("https://s3.example").host, "s3.example");
    assert_eq!(address("https://s3.example").socket, "s3.example:443");
    assert!(address("https://s3.example").tls.is_some());
}

#[test]
fn an_invalid_endpoint_is_refused() {
    for endpoint in ["", "s3.example", "ftp://h", "http://h/path", "http://u@h", "http://h/?q"] {
        let found = target(endpoint).address();
        assert!(matches!(found, Err(Trouble::Endpoint(_))), "{endpoint:?}");
    }
}

#[test]
fn a_missing_file_of_certificates_is_an_error() {
    let mut target = target("https://h");
    target.authority = Some("/nowhere/at/all.pem".into());
    assert!(matches!(target.address(), Err(Trouble::Certificates(_))));
}

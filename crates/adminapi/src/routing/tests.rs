use http::{Method, StatusCode};

use super::route;
use crate::Endpoint;

#[test]
fn each_endpoint_is_found_by_its_path() {
    for &endpoint in Endpoint::ALL {
        // A parameter is escaped in the path.
        let path = endpoint.path().replace("{policy}", "a%20b").replace("{bucket}", "photos");
        let path = path.replace("{account}", "lab").replace("{user}", "anna");
        let path = path.replace("{key}", "k").replace("{token}", "t").replace("{group}", "g");
        let found = route(&endpoint.method(), &format!("/api/v1{path}")).unwrap();
        assert_eq!(found.endpoint, endpoint);
    }
    let found = route(&Method::GET, "/api/v1/policies/a%20b").unwrap();
    assert_eq!(found.parameters, ["a b"]);
}

#[test]
fn fixed_paths_come_before_parameters_of_the_same_method() {
    for (at, endpoint) in Endpoint::ALL.iter().enumerate() {
        for later in &Endpoint::ALL[at + 1..] {
            let same = endpoint.method() == later.method() && endpoint.path() == later.path();
            assert!(!same, "{endpoint:?} hides {later:?}");
        }
    }
}

#[test]
fn unknown_paths_and_methods_are_refused() {
    let status = |method, path| route(&method, path).unwrap_err().status;
    for path in
        ["/", "/api/v1", "/api/v1/", "/api/v1/users/", "/api/v2/me", "/api/v1/buckets//quota"]
    {
        assert_eq!(status(Method::GET, path), StatusCode::NOT_FOUND, "{path}");
    }
    assert_eq!(status(Method::GET, "/api/v1/buckets/%ff"), StatusCode::NOT_FOUND);
    assert_eq!(status(Method::POST, "/api/v1/me"), StatusCode::METHOD_NOT_ALLOWED);
}

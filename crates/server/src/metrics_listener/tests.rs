use http::header::ACCEPT;
use http::{HeaderMap, HeaderValue, Request};

use super::{Exposition, Hosts, ListenAt};

#[test]
fn the_format_of_metrics_is_the_one_that_the_client_prefers() {
    // The header of Prometheus 2.42, and of one that is set to the older format.
    let prometheus = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;\
                      version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
    for (accept, format) in [
        (prometheus, Exposition::OpenMetrics),
        ("text/plain;version=0.0.4;q=1,*/*;q=0.1", Exposition::Prometheus),
        ("text/plain", Exposition::Prometheus),
        ("application/openmetrics-text;q=0.3, text/plain; q=0.5", Exposition::Prometheus),
        ("*/*", Exposition::OpenMetrics),
        ("", Exposition::OpenMetrics),
        ("text/plain;q=0", Exposition::OpenMetrics),
    ] {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_str(accept).unwrap());
        assert_eq!(Exposition::accepted(&headers), format, "{accept}");
    }
    assert_eq!(Exposition::accepted(&HeaderMap::new()), Exposition::OpenMetrics);
}

fn hosts(listen: &str, others: &[&str]) -> Hosts {
    let others: Vec<String> = others.iter().map(|&name| name.to_owned()).collect();
    Hosts::new(&ListenAt::At(listen.to_owned()), &others)
}

#[test]
fn addresses_localhost_and_own_names_are_accepted() {
    let hosts = hosts("Gateway-1.internal:9701", &["metrics.example.", "ashlar:9701"]);
    for good in [
        "localhost",
        "LOCALHOST:9701",
        "localhost.:9701",
        "ashlar.localhost:9701",
        "127.0.0.1:9701",
        "127.9.9.9",
        "10.1.2.3:80",
        "[::1]:9701",
        "[::1]",
        "[2001:db8::7]:9701",
        "gateway-1.internal:9701",
        "gateway-1.INTERNAL.",
        "metrics.example:1",
        "ashlar",
    ] {
        assert!(hosts.admit(good), "{good}");
    }
    for bad in [
        "",
        ":9701",
        "evil.example",
        "evil.example:9701",
        "localhost.evil.example",
        "notlocalhost",
        "127.0.0.1.evil.example",
        "127.0.0.1.evil.example:9701",
        "[::1].evil.example",
        "[evil.example]",
        "::1",
        "127.1",
        "2130706433",
        "gateway-1",
        "sub.metrics.example",
        "evil.example:9701:127.0.0.1",
        "127.0.0.1:9701@evil.example",
    ] {
        assert!(!hosts.admit(bad), "{bad}");
    }
    assert!(!Hosts::new(&ListenAt::Default, &[]).admit("metrics.example"));
    let anywhere = Hosts::new(&ListenAt::At(":9701".to_owned()), &[]);
    assert!(!anywhere.admit(":9701") && !anywhere.admit(""));
}

#[test]
fn a_request_needs_exactly_one_accepted_host() {
    let hosts = hosts("127.0.0.1:9701", &[]);
    let request = |target: &str, names: &[&str]| {
        let mut request = Request::get(target);
        for name in names {
            request = request.header("host", *name);
        }
        hosts.admit_request(&request.body(()).expect("a request"))
    };
    assert!(request("/status", &["localhost:9701"]));
    assert!(request("http://127.0.0.1:9701/status", &["127.0.0.1:9701"]));
    assert!(!request("/status", &[]));
    assert!(!request("/status", &["localhost", "evil.example"]));
    assert!(!request("/status", &["evil.example", "localhost"]));
    assert!(!request("http://evil.example/status", &["localhost"]));
    assert!(!request("http://localhost/status", &["evil.example"]));
}

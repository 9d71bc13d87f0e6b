use super::check;

#[test]
fn a_console_has_a_scheme_and_a_host() {
    for url in ["https://console.example.com", "http://127.0.0.1:9702/", "https://a/console?x"] {
        assert!(check(url).is_ok(), "{url}");
    }
    for url in ["console.example.com", "/console", "javascript:alert(1)", "https://me:pw@a/", ""] {
        let error = check(url).expect_err(url).to_string();
        assert!(error.contains("console_url"), "{error}");
    }
}

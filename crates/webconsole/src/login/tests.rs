use super::local;

#[test]
fn a_login_leads_to_paths_of_this_console_alone() {
    assert_eq!(local(Some("/buckets/photos?page=1")), "/buckets/photos?page=1");
    for other in [
        "//evil.example",
        "https://evil.example",
        "/\\evil.example",
        "/\t/evil.example",
        "",
        "buckets",
    ] {
        assert_eq!(local(Some(other)), "/", "{other:?}");
    }
    assert_eq!(local(None), "/");
}

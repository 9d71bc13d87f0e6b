use adminapi::ApiServed;

use super::{Page, Route};

#[test]
fn each_page_is_found_by_its_path_with_its_name_decoded() {
    for page in Page::ALL {
        let path = page.path().replace(['{', '}'], "%41");
        let route = Route::parse(&path).expect("the path of a page");
        assert_eq!(route.page, *page, "{path}");
        let has_name = page.path().contains('{');
        assert_eq!(route.named().starts_with('A'), has_name, "{path}");
    }
    assert!(Route::parse("/buckets/photos/unknown").is_err());
    assert!(Route::parse("/users/%FF").is_err(), "a name that is no UTF-8");
}

#[test]
fn a_page_notes_its_name_and_resource() {
    let mut served = ApiServed::default();
    Route::parse("/users/an%20na").expect("a page").note(&mut served);
    assert_eq!(served.operation, "ConsoleUser");
    assert_eq!(served.resources, [("user", "an na".to_owned())]);
    Route::parse("/buckets/photos/trash").expect("a page").note(&mut served);
    assert_eq!(
        (served.operation, served.bucket.as_deref()),
        ("ConsoleBucketTrash", Some("photos"))
    );
}

use http::HeaderMap;
use http::header::{HeaderValue, LAST_MODIFIED};

use super::{entry, modified, safe_name};

#[test]
fn names_stay_in_the_folder_of_the_archive() {
    for (key, name) in [
        ("a/b.txt", "a/b.txt"),
        ("../../etc/passwd", "_/_/etc/passwd"),
        ("/etc/passwd", "etc/passwd"),
        ("a//b", "a/b"),
        (r"a\..\b", "a/_/b"),
        ("C:/windows", "C_/windows"),
        ("tab\there", "tab_here"),
        ("//", "_"),
    ] {
        assert_eq!(safe_name(key), name, "{key:?}");
    }
}

#[test]
fn files_have_the_time_of_their_objects_and_are_readable() {
    let mut headers = HeaderMap::new();
    headers.insert(LAST_MODIFIED, HeaderValue::from_static("Sun, 29 Nov 2026 08:42:31 GMT"));
    let time = modified(&headers);
    assert_eq!((time.year(), time.month(), time.day()), (2026, 11, 29));
    // Times of ZIP files have two-second steps.
    assert_eq!((time.hour(), time.minute(), time.second()), (8, 42, 30));
    let built = entry("a".to_owned(), time).build();
    assert_eq!(built.unix_permissions(), Some(0o100_644));
}

#[test]
fn times_that_a_zip_file_cannot_have_are_the_first_one() {
    for text in ["", "yesterday", "Sun, 29 Nov 1970 08:42:31 GMT"] {
        let mut headers = HeaderMap::new();
        headers.insert(LAST_MODIFIED, HeaderValue::from_static(text));
        assert_eq!(modified(&headers), async_zip::ZipDateTime::default(), "{text}");
    }
}

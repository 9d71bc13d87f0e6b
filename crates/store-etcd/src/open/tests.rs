use crate::rpc::StatusAnswer;

use super::check_version;

fn accepts(version: &str) -> bool {
    check_version(&StatusAnswer { version: version.to_owned(), ..StatusAnswer::default() }).is_ok()
}

#[test]
fn versions_that_lose_consistency_are_refused() {
    for version in ["3.4.22", "3.4.23", "3.5.6", "3.5.21", "3.6.0", "3.7.0-rc.1", "4.0.0"] {
        assert!(accepts(version), "{version}");
    }
    for version in ["3.3.27", "3.4.21", "3.4.3", "3.5.0", "3.5.5", "3.5.5-rc.0", "2.3.8", ""] {
        assert!(!accepts(version), "{version}");
    }
}

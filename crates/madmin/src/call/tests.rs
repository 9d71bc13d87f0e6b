use super::*;

#[test]
fn each_call_is_found_by_its_method_and_path_in_both_versions() {
    for &call in AdminCall::ALL {
        for prefix in PREFIXES {
            let path = format!("{prefix}{}", call.path());
            assert!(is_ours(&path));
            assert_eq!(target(&call.method(), &path), Target::Call(call));
            assert_eq!(target(&Method::PATCH, &path), Target::Missing(call.path()));
        }
    }
}

#[test]
fn other_paths_are_missing_calls_or_objects() {
    assert_eq!(target(&Method::POST, "/minio/admin/v3/service"), Target::Missing("service"));
    assert_eq!(target(&Method::GET, "/minio/v2/metrics/cluster"), Target::Metrics);
    assert_eq!(target(&Method::GET, "/minio/v2/metrics/node"), Target::Missing("v2/metrics/node"));
    for object in ["/minio/admin/v3", "/minio/admin/v30/x", "/minio/x", "/minio/v2/metricsx", "/"] {
        assert!(!is_ours(object), "{object}");
    }
}

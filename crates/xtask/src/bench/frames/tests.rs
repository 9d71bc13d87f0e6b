use super::*;

#[test]
fn each_side_has_the_median_of_its_seconds() {
    let found = middles("0.3 0.1 0.2 3 1 2\n", 3).expect("six numbers");
    assert_eq!(found.map(|it| format!("{it:.1}")), ["0.2", "2.0"]);
    assert!(middles("0.3 0.1 0.2\n", 3).is_err(), "half of them are missing");
    assert!(middles("a traceback", 1).is_err());
}

#[test]
fn a_path_has_no_endpoint() {
    let place = |path: &str, endpoint: Option<&str>| FrameSide {
        path: path.to_owned(),
        endpoint: endpoint.map(str::to_owned),
    };
    let sides = [place("s3://a/b", Some("http://c")), place("/mnt/b", None)];
    let command = program(Path::new("python"), &sides, 7);
    let words: Vec<_> = command.get_args().skip(4).collect();
    assert_eq!(words, ["7", "s3://a/b", "http://c", "/mnt/b", ""]);
}

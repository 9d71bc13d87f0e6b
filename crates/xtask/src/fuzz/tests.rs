use super::{Status, chosen};

const LOG: &str = "\
INFO: seed corpus: files: 6 min: 1b max: 82b total: 240b rss: 42Mb
#7\tINITED cov: 310 ft: 480 corp: 6/240b exec/s: 0 rss: 43Mb
#2048\tpulse  cov: 512 ft: 900 corp: 31/1024b lim: 82 exec/s: 1024 rss: 50Mb
#2050\tREDUCE cov: 513 ft: 901 corp: 31/1020b lim: 82 exec/s: 1025 rss: 50Mb L: 8/82 MS: 1
# of nothing
stat::number_of_executed_units: 2050
";

#[test]
fn the_status_is_the_last_one_in_the_log() {
    assert_eq!(Status::of(LOG), Status { inputs: 2050, edges: 513 });
    assert_eq!(Status::of(LOG).to_string(), "2050 inputs, 513 edges");
    assert_eq!(Status::of("error: could not compile"), Status::default());
}

#[test]
fn an_unknown_target_is_refused() {
    let all = ["form".to_owned(), "xml".to_owned()];
    assert_eq!(chosen(&all, &[]).unwrap(), all);
    assert_eq!(chosen(&all, &["xml".to_owned()]).unwrap(), ["xml"]);
    let error = chosen(&all, &["html".to_owned()]).unwrap_err();
    assert_eq!(error.to_string(), "there is no target html; the targets are form, xml");
}

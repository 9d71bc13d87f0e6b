use super::*;

#[test]
fn metrics_include_those_of_the_process_and_of_the_edge() {
    let text = Metrics::new().text().expect("text");
    for line in
        ["process_resident_memory_bytes ", "process_cpu_seconds_total ", "ashlar_s3_panics_total 0"]
    {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}

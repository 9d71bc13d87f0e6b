use super::*;

const TEXT: &str = "HTTP/1.1 200 OK\r\n\r\n\
# TYPE ashlar_metadata_round_trips counter\n\
ashlar_metadata_round_trips_total{operation=\"read\"} 7\n\
ashlar_metadata_round_trips_total{operation=\"commit\"} 5\n\
ashlar_metadata_cached_reads_total 9\n\
ashlar_blocks_requests_total{operation=\"put\"} 3\n\
ashlar_blocks_bytes_total{operation=\"put\"} 4096\n\
ashlar_blocks_bytes_total{operation=\"get\"} 4\n";

#[test]
fn a_counter_is_summed_over_its_labels() {
    let expected =
        Counters { block_requests: 3, block_bytes: 4100, reads: 7, commits: 5, cached: 9 };
    assert_eq!(Counters::parse(TEXT), Some(expected));
    assert_eq!(expected.trips(), 12);
    assert_eq!(Counters::parse(""), None, "metrics without the counters are refused");
}

#[test]
fn earlier_counts_are_subtracted() {
    let before = Counters { block_requests: 1, block_bytes: 100, reads: 2, commits: 5, cached: 1 };
    let since = Counters::parse(TEXT).expect("counters").since(before);
    let left = Counters { block_requests: 2, block_bytes: 4000, reads: 5, commits: 0, cached: 8 };
    assert_eq!(since, left);
}

#[test]
fn counters_of_two_processes_are_added() {
    let one = Counters { block_requests: 1, block_bytes: 2, reads: 3, commits: 4, cached: 5 };
    assert_eq!(one.plus(one).since(one), one);
    assert_eq!(one.plus(one).trips(), 14);
}

#[test]
fn urls_of_listeners_are_found_in_the_log() {
    let line = "INFO serving endpoint=\"http://127.0.0.1:1\" admin=\"http://127.0.0.1:2\" \
                console=\"https://127.0.0.1:3\" meta=x";
    assert_eq!(url_in(line, "admin"), Some("http://127.0.0.1:2"));
    assert_eq!(url_in(line, "console"), Some("https://127.0.0.1:3"));
    assert_eq!(url_in("admin=\"off\"", "admin"), None);
}

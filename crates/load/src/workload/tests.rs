use super::*;

#[test]
fn every_verb_is_found_by_its_name() {
    for verb in Verb::ALL {
        assert_eq!(verb.name().parse(), Ok(verb));
    }
    let refused = "puts".parse::<Verb>().expect_err("no such verb");
    assert!(refused.contains("delete-batch"), "{refused}");
}

#[test]
fn the_objects_of_warm_reads_fit_in_each_cache() {
    let of = |bytes| Workload::new(Verb::Get, bytes, 1, Duration::ZERO).objects;
    assert_eq!([of(0), of(4 << 10), of(1 << 20), of(16 << 20)], [128, 128, 64, 4]);
}

#[test]
fn parts_are_no_smaller_than_the_protocol_allows() {
    let of = |bytes| Workload::new(Verb::Multipart, bytes, 1, Duration::ZERO).part_bytes;
    assert_eq!([of(1), of(6 << 20), of(16 << 20)], [5 << 20, 6 << 20, 8 << 20]);
}

#[test]
fn a_rate_is_shared_by_all_clients() {
    let put = Workload::new(Verb::Put, 4 << 10, 8, Duration::ZERO);
    assert_eq!(put.pace, None, "without a limit");
    assert_eq!(put.at_most(50).pace, Some(Duration::from_millis(160)));
    assert_eq!(put.at_most(0).pace, Some(Duration::from_secs(8)), "no division by zero");
}

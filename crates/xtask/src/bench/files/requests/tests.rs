use super::*;

const TRACE: &str = "\
# tracer: nop
#
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
           touch-6804    [001] ...1.  1306.539256: fuse_request_send: connection 39 req 6 opcode 1 (FUSE_LOOKUP) len 42 
           touch-6804    [001] ...1.  1306.539373: fuse_request_send: connection 39 req 8 opcode 35 (FUSE_CREATE) len 58 
           touch-6804    [001] ...1.  1306.539514: fuse_request_send: connection 39 req 10 opcode 1 (FUSE_LOOKUP) len 64 
           touch-6804    [001] ...1.  1306.539551: fuse_request_send: connection 39 req 12 opcode 53 (0x35) len 128 
";

#[test]
fn requests_are_counted_by_kind() {
    let found: Vec<(String, u64)> = kinds(TRACE).into_iter().collect();
    let wanted = [("53", 1), ("CREATE", 1), ("LOOKUP", 2)];
    assert_eq!(found, wanted.map(|(kind, count)| (kind.to_owned(), count)));
}

#[test]
fn overwritten_events_are_counted() {
    let stats = "entries: 7\noverrun: 3\ncommit overrun: 5\nbytes: 900\nnow ts: 12.5\n";
    assert_eq!(event_count(stats), 10);
}

#[test]
fn the_kinds_of_an_operation_are_listed_by_frequency() {
    let count = |kind: &str, count| (kind.to_owned(), count);
    let kinds = BTreeMap::from([count("LOOKUP", 200), count("CREATE", 100), count("READ", 2)]);
    let requests = Requests { sent: 302, kinds };
    assert!((requests.each(100) - 3.02).abs() < 1e-9);
    assert_eq!(requests.kinds(100), "LOOKUP 2, CREATE 1");
}

#[test]
fn kinds_are_scaled_to_the_number_of_sent_requests() {
    let requests = Requests { sent: 400, kinds: BTreeMap::from([("READ".to_owned(), 100)]) };
    assert_eq!(requests.kinds(100), "READ 4");
    assert_eq!(Requests::default().kinds(0), "");
}

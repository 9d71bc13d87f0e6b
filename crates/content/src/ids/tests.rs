use super::*;

#[test]
fn ids_of_reserved_ranges_are_drawn_once() {
    let next = AtomicU64::new(100);
    let ids = BlockIds::reserved(Nonce([1; 10]), move || {
        let first = next.fetch_add(10, Ordering::Relaxed);
        first..first + 3
    });
    let drawn: Vec<u64> = (0..5).map(|_| ids.allocate().counter()).collect();
    assert_eq!(drawn, [100, 101, 102, 110, 111]);
    assert_eq!(ids.allocate_pack().counter(), 0x70 | BlockId::PACK_BIT);
}

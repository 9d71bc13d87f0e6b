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

#[test]
fn each_kind_of_block_takes_its_own_counter_and_mark() {
    let ids = BlockIds::new(Nonce([1; 10]));
    let drawn = [
        ids.allocate(),
        ids.allocate_pack(),
        ids.allocate_bare(),
        ids.allocate_secret(),
        ids.allocate_secret_pack(),
    ];
    let marks = [
        0,
        BlockId::PACK_BIT,
        BlockId::BARE_BIT,
        BlockId::SECRET_BIT,
        BlockId::SECRET_BIT | BlockId::PACK_BIT,
    ];
    for ((counter, mark), id) in (0..).zip(marks).zip(drawn) {
        assert_eq!(id.counter(), counter | mark);
    }
}

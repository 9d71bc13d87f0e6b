//! Dumps of stores in memory: nothing is lost, nothing that is damaged is taken, and a store is
//! filled completely or is none.

mod failing;
mod stores;

use std::io::Cursor;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use dump::{DumpError, DumpSize, Keystone, Phase, Watcher};
use store::{
    CounterKey, Key, MemoryStore, MetaStore, Read, ReadResult, Space, StoreErrorKind, Verdict,
    Write,
};

use failing::{Failing, Fault};
use stores::{LABEL, dumped, keystone, keystone_key, loaded, put, volume, write};

/// A store with a few records: one of each kind, so that every byte of its dump can be tried.
fn few() -> Vec<Write> {
    vec![
        put(keystone_key(), "the volume"),
        put(Key::new(Space(b'E'), 0, b""), ""),
        put(Key::new(Space(b'd'), 1, b"photos/"), "a name"),
        put(Key::new(Space(b'd'), 0x0102_0304, "caf\u{e9}".as_bytes()), [0, 1, 2, 0xff]),
        Write::Set(CounterKey(Key::new(Space(b'n'), 1, b"\0")), 3),
        Write::Set(CounterKey(Key::new(Space(b'n'), 1, b"\x02")), -(1 << 53)),
    ]
}

async fn filled(writes: Vec<Write>) -> MemoryStore {
    let store = MemoryStore::new();
    write(&store, writes).await;
    store
}

async fn record(store: &dyn MetaStore, key: Key) -> Option<Vec<u8>> {
    let found = store.read(&[Read::Record { key, follow: None }]).await.expect("an answer");
    match found.first() {
        Some(ReadResult::Record(entry)) => entry.as_ref().map(|entry| entry.value.to_vec()),
        _ => panic!("a record was asked for"),
    }
}

async fn is_empty(store: &dyn MetaStore) -> bool {
    let mut all = store.snapshot().await.expect("a snapshot");
    all.records(1).await.expect("a page").is_empty()
        && all.counters(1).await.expect("a page").is_empty()
}

#[tokio::test]
async fn dump_load_dump_gives_the_same_bytes() {
    for writes in [few(), volume()] {
        let first = filled(writes).await;
        let bytes = dumped(&first).await;
        let second = MemoryStore::new();
        let summary = loaded(&second, &bytes).await.expect("loaded");
        assert!(dumped(&second).await == bytes, "the second dump differs");
        assert_eq!(dump::verify(&mut &bytes[..], &()).expect("whole"), summary);
        assert_eq!(summary.label, LABEL);
    }
}

#[tokio::test]
async fn the_bytes_are_the_golden_ones() {
    let bytes = dumped(&filled(few()).await).await;
    let lines: Vec<String> = bytes.chunks(32).map(|line| format!("{}\n", Hex(line))).collect();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/few.hex");
    if std::env::var_os("GOLDEN_BLESS").is_some() {
        std::fs::write(path, lines.concat()).expect("the golden file");
    }
    let golden = std::fs::read_to_string(path).expect("GOLDEN_BLESS=1 makes it");
    assert_eq!(lines.concat(), golden, "dumps of earlier releases would not be read any more");
}

struct Hex<'a>(&'a [u8]);

impl std::fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[tokio::test]
async fn a_flipped_bit_anywhere_is_refused_and_nothing_is_written() {
    let bytes = dumped(&filled(few()).await).await;
    let store = MemoryStore::new();
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << bit;
            let refused = loaded(&store, &damaged).await;
            assert!(
                matches!(
                    refused,
                    Err(DumpError::NotADump | DumpError::Damaged { .. } | DumpError::Cut(_))
                ),
                "bit {bit} of byte {at}: {refused:?}"
            );
            assert!(is_empty(&store).await, "bit {bit} of byte {at}");
        }
    }
    loaded(&store, &bytes).await.expect("undamaged, it is taken");
}

#[tokio::test]
async fn a_dump_cut_anywhere_is_refused_and_nothing_is_written() {
    let bytes = dumped(&filled(few()).await).await;
    let store = MemoryStore::new();
    for length in 0..bytes.len() {
        let refused = loaded(&store, &bytes[..length]).await;
        assert!(
            matches!(refused, Err(DumpError::NotADump | DumpError::Cut(_))),
            "{length} bytes: {refused:?}"
        );
        assert!(is_empty(&store).await, "{length} bytes");
    }
    let longer = [&bytes[..], b"\n"].concat();
    assert!(matches!(loaded(&store, &longer).await, Err(DumpError::Damaged { .. })));
    assert!(is_empty(&store).await);
}

/// The piece of a record, with a CRC that fits.
fn piece(key: &[u8], value: &[u8]) -> Vec<u8> {
    let lengths = (u16::try_from(key.len()), u32::try_from(value.len()));
    let lengths = (lengths.0.expect("short"), lengths.1.expect("short"));
    let (key_length, value_length) = (lengths.0.to_be_bytes(), lengths.1.to_be_bytes());
    let mut piece = [&[1], &key_length[..], &value_length[..], key, value].concat();
    let crc = crc32c::crc32c(&piece);
    piece.extend_from_slice(&crc.to_be_bytes());
    piece
}

#[tokio::test]
async fn intact_pieces_out_of_order_are_refused() {
    let header = dumped(&MemoryStore::new()).await[..9 + LABEL.len() + 4].to_vec();
    let [a, b] = [piece(b"V\0\0\0\0\0\0\0\0", b"1"), piece(b"d\0\0\0\0\0\0\0\0", b"2")];
    let short = piece(b"V\0\0\0\0\0\0\0", b"1");
    for (pieces, why) in [
        ([&b, &a], "keys are out of order"),
        ([&a, &a], "keys are out of order"),
        ([&short, &b], "a key is too short"),
    ] {
        let bytes = [&header[..], pieces[0], pieces[1]].concat();
        let refused = dump::verify(&mut &bytes[..], &()).expect_err("no dump").to_string();
        assert!(refused.ends_with(why), "{refused}");
    }
    let bytes = [&header[..], &a, &b].concat();
    let refused = dump::verify(&mut &bytes[..], &());
    assert!(matches!(refused, Err(DumpError::Cut(_))), "in order: {refused:?}");
}

#[tokio::test]
async fn a_dump_of_another_format_is_refused() {
    let mut bytes = dumped(&filled(few()).await).await;
    let crc_at = 9 + LABEL.len();
    bytes[7] = 2;
    let crc = crc32c::crc32c(&bytes[..crc_at]).to_be_bytes();
    bytes[crc_at..crc_at + 4].copy_from_slice(&crc);
    let store = MemoryStore::new();
    let refused = loaded(&store, &bytes).await.expect_err("refused");
    assert!(matches!(refused, DumpError::Format(2)), "{refused:?}");
    let told = "it has format 2, and this release reads format 1: use a newer one";
    assert_eq!(refused.to_string(), told);
    assert!(is_empty(&store).await);
    for foreign in [&b""[..], b"SQLite format 3\0", b"-- PostgreSQL database dump"] {
        assert!(matches!(loaded(&store, foreign).await, Err(DumpError::NotADump)));
    }
}

#[tokio::test]
async fn a_store_that_holds_anything_is_not_filled() {
    let bytes = dumped(&filled(few()).await).await;
    let mut there: Vec<Write> =
        [0, b'A', b'n', 0xff].map(|space| put(Key::new(Space(space), 9, b"x"), "")).into();
    let counter = CounterKey(Key::new(Space(b'n'), 9, b"x"));
    there.push(Write::Set(counter.clone(), -1));
    for there in there {
        let store = filled(vec![there.clone()]).await;
        let before = dumped(&store).await;
        let refused = loaded(&store, &bytes).await;
        assert!(matches!(refused, Err(DumpError::NotEmpty(_))), "{there:?}: {refused:?}");
        assert!(dumped(&store).await == before, "{there:?}: something was written");
    }
    let zero = filled(vec![Write::Set(counter, 0)]).await;
    loaded(&zero, &bytes).await.expect("a counter of 0 is nothing");
    assert!(dumped(&zero).await == bytes);
    let again = loaded(&zero, &bytes).await;
    assert!(matches!(again, Err(DumpError::NotEmpty(_))), "{again:?}");
}

#[tokio::test]
async fn a_dump_without_its_keystone_is_not_loaded() {
    let bytes = dumped(&filled(vec![put(Key::new(Space(b'd'), 1, b"a"), "1")]).await).await;
    let store = MemoryStore::new();
    let refused = loaded(&store, &bytes).await;
    assert!(matches!(refused, Err(DumpError::NoKeystone(_))), "{refused:?}");
    assert!(is_empty(&store).await);
    dump::verify(&mut &bytes[..], &()).expect("it is a dump all the same");
}

#[tokio::test]
async fn records_beyond_the_limits_of_an_engine_are_refused_before_any_write() {
    let large = Key::new(Space(b'I'), 1, b"large");
    let long = Key::new(Space(b'I'), 1, &[b'k'; 200]);
    let cases = [
        (put(large.clone(), vec![1; 1_001]), "1001 bytes of its value are more than 1000"),
        (put(long.clone(), ""), "209 bytes of its key are more than 200"),
        (put(large.clone(), vec![1; 990]), "1004 bytes in all are more than 955"),
        (Write::Set(CounterKey(large), 5), ""),
    ];
    for (write_it, why) in cases {
        let mut writes = few();
        writes.push(write_it);
        let bytes = dumped(&filled(writes).await).await;
        let store = Failing::new(0, Fault::Nothing).limited(|limits| {
            limits.key_bytes = 200;
            limits.value_bytes = 1_000;
            limits.plan_bytes = 1_009;
        });
        let done = loaded(&store, &bytes).await;
        if why.is_empty() {
            assert!(dumped(&store).await == bytes);
            continue;
        }
        let refused = done.expect_err(why);
        assert!(matches!(refused, DumpError::TooLarge { .. }), "{refused:?}");
        assert!(refused.to_string().ends_with(why), "{refused}");
        assert!(is_empty(&store.store).await);
    }
}

#[tokio::test]
async fn commits_stay_within_the_limits_of_the_engine() {
    let bytes = dumped(&filled(volume()).await).await;
    let store = Failing::new(0, Fault::Nothing).limited(|limits| {
        limits.plan_items = 7;
        limits.batch_items = 5;
        limits.value_bytes = 800_000;
        limits.plan_bytes = 900_000;
        limits.batch_bytes = 900_000;
    });
    loaded(&store, &bytes).await.expect("loaded");
    assert!(dumped(&store).await == bytes);
    assert!(store.commits() > 80, "{} commits of 4 writes each", store.commits());
}

#[tokio::test]
async fn an_interrupted_load_never_leaves_a_complete_store() {
    let bytes = dumped(&filled(volume()).await).await;
    let few_items = |limits: &mut store::Limits| limits.plan_items = 40;
    let whole = Failing::new(0, Fault::Nothing).limited(few_items);
    loaded(&whole, &bytes).await.expect("loaded");
    let commits = whole.commits();
    assert!(commits > 8, "{commits}");
    for at in 1..=commits {
        let store = Failing::new(at, Fault::Corrupt).limited(few_items);
        let failed = loaded(&store, &bytes).await;
        assert!(matches!(failed, Err(DumpError::Store(_))), "commit {at}: {failed:?}");
        let found = record(&store.store, keystone_key()).await;
        assert_ne!(found.as_deref(), Some(&b"the volume"[..]), "commit {at}");
        assert_eq!(found.is_some(), at > 1, "commit {at}");
        assert!(found.is_none_or(|found| Keystone::is_unfinished(&found)), "commit {at}");
        if at > 1 {
            let again = loaded(&store.store, &bytes).await;
            assert!(matches!(again, Err(DumpError::Unfinished)), "commit {at}: {again:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_load_survives_failed_and_unanswered_commits() {
    let bytes = dumped(&filled(volume()).await).await;
    for fault in [Fault::BeforeEach, Fault::AfterEach] {
        let store = Failing::new(0, fault).limited(|limits| limits.plan_items = 40);
        loaded(&store, &bytes).await.expect("loaded");
        assert!(dumped(&store).await == bytes, "{fault:?}");
        assert!(store.faults() > 8, "{fault:?}: {} faults", store.faults());
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_stays_away_ends_the_load() {
    let bytes = dumped(&filled(few()).await).await;
    let store = Failing::new(0, Fault::Always);
    let failed = loaded(&store, &bytes).await;
    assert!(
        matches!(&failed, Err(DumpError::Store(error))
            if error.kind() == StoreErrorKind::Unavailable),
        "{failed:?}"
    );
    assert_eq!(store.faults(), 8, "tries");
}

#[tokio::test(start_paused = true)]
async fn a_late_original_changes_nothing_after_the_load() {
    let bytes = dumped(&filled(volume()).await).await;
    let store = Failing::new(0, Fault::BeforeEach).limited(|limits| limits.plan_items = 40);
    loaded(&store, &bytes).await.expect("loaded");
    let changed = [
        put(Key::new(Space(b'a'), 0, b"a"), "changed since"),
        put(Key::new(Space(b'I'), 7, b"large"), "small now"),
    ];
    write(&store.store, changed.into()).await;
    let now = dumped(&store.store).await;
    let late = store.take_lost();
    assert!(late.len() > 8, "{} commits were lost on their way", late.len());
    for plan in late {
        let verdicts = store.store.commit(&[plan]).await.expect("decided");
        assert!(matches!(verdicts[..], [Verdict::Refused { guard: 0, .. }]));
    }
    assert!(dumped(&store.store).await == now, "a late commit changed something");
}

#[tokio::test]
async fn of_two_concurrent_loads_one_fails() {
    let bytes = dumped(&filled(volume()).await).await;
    // Another process takes the store just before the load claims it, and just before it fills it.
    for (at, left) in [(1, "taken"), (3, "taken")] {
        let store = Failing::new(at, Fault::Taken);
        let refused = loaded(&store, &bytes).await;
        assert!(matches!(refused, Err(DumpError::Contested)), "commit {at}: {refused:?}");
        let found = record(&store.store, keystone_key()).await;
        assert_eq!(found.as_deref(), Some(left.as_bytes()), "commit {at}");
    }
}

#[tokio::test]
async fn a_file_that_changes_between_the_passes_leaves_no_complete_store() {
    let bytes = dumped(&filled(few()).await).await;
    let mut other = few();
    other[0] = put(keystone_key(), "another volume");
    let other = dumped(&filled(other).await).await;
    for second in [other, bytes[..bytes.len() - 1].to_vec(), Vec::new()] {
        let store = MemoryStore::new();
        let mut input = TwoFaced { faces: vec![Cursor::new(bytes.clone()), Cursor::new(second)] };
        let failed = dump::load(&store, &mut input, &keystone(1), &()).await;
        assert!(matches!(failed, Err(DumpError::Changed)), "{failed:?}");
        let found = record(&store, keystone_key()).await.expect("claimed");
        assert!(Keystone::is_unfinished(&found));
    }
}

/// A file whose content differs after a seek to its beginning.
struct TwoFaced {
    faces: Vec<Cursor<Vec<u8>>>,
}

impl std::io::Read for TwoFaced {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.faces[0].read(buffer)
    }
}

impl std::io::Seek for TwoFaced {
    fn seek(&mut self, to: std::io::SeekFrom) -> std::io::Result<u64> {
        if to == std::io::SeekFrom::Start(0) {
            self.faces.remove(0);
        }
        self.faces[0].seek(to)
    }
}

/// Lets its writer go on only when the others have committed something since.
struct Patient<'a> {
    bytes: Vec<u8>,
    moved: &'a AtomicU64,
    waits: u64,
}

impl std::io::Write for Patient<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let before = self.moved.load(Ordering::SeqCst);
        while self.moved.load(Ordering::SeqCst) == before {
            std::thread::sleep(Duration::from_micros(50));
        }
        self.waits += 1;
        self.bytes.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// While units move between 20,000 records, a dump has all of them, at one instant.
#[test]
fn a_dump_is_a_snapshot_while_other_processes_commit() {
    const PLACES: u64 = 20_000;
    const UNITS: u64 = 10;
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let account = |number: u64| Key::new(Space(b'd'), number % 64, &number.to_be_bytes());
    let total = CounterKey(Key::new(Space(b'n'), 0, b"moves"));
    let units = |held: u64| [&held.to_be_bytes()[..], &[b'.'; 92]].concat();
    let mut writes: Vec<Write> = (0..PLACES).map(|n| put(account(n), units(UNITS))).collect();
    writes.push(put(keystone_key(), "0"));
    let store = runtime.block_on(filled(writes));
    let (moved, done) = (AtomicU64::new(0), AtomicBool::new(false));
    let mut out = Patient { bytes: Vec::new(), moved: &moved, waits: 0 };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut held = vec![UNITS; usize::try_from(PLACES).expect("few")];
            for step in 0_u64.. {
                if done.load(Ordering::SeqCst) {
                    return;
                }
                let [from, to] = [step * 7_919 % PLACES, step * 104_729 % PLACES];
                let at = |n: u64| usize::try_from(n).expect("few");
                if from == to || held[at(from)] == 0 {
                    continue;
                }
                held[at(from)] -= 1;
                held[at(to)] += 1;
                let count = moved.load(Ordering::SeqCst) + 1;
                let mut writes: Vec<Write> =
                    [from, to].map(|n| put(account(n), units(held[at(n)]))).into();
                writes.push(put(keystone_key(), count.to_string()));
                writes.push(Write::Add(total.clone(), 1));
                futures::executor::block_on(write(&store, writes));
                moved.store(count, Ordering::SeqCst);
            }
        });
        let dumped = runtime.block_on(dump::dump(&store, b"", &mut out, &()));
        done.store(true, Ordering::SeqCst);
        assert_eq!(dumped.expect("a dump").counts.records, PLACES + 1);
    });
    assert!(out.waits > 5, "{} pieces were written while others committed", out.waits);
    let copy = MemoryStore::new();
    runtime.block_on(async {
        loaded(&copy, &out.bytes).await.expect("loaded");
        let mut sum = 0;
        for number in 0..PLACES {
            let value = record(&copy, account(number)).await.expect("an account");
            sum += u64::from_be_bytes(value[..8].try_into().expect("eight bytes"));
        }
        assert_eq!(sum, PLACES * UNITS, "units came or went");
        let found = copy.read(&[Read::Counter(total.clone())]).await.expect("an answer");
        let count = record(&copy, keystone_key()).await.expect("a count");
        let count: i64 = String::from_utf8_lossy(&count).parse().expect("a number");
        assert_eq!(found, [ReadResult::Counter(count)], "records and counters are of two instants");
    });
}

#[tokio::test]
async fn a_writer_that_fails_ends_the_dump() {
    struct Full;
    impl std::io::Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("no space left"))
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let failed = dump::dump(&filled(few()).await, LABEL, &mut Full, &()).await;
    let failed = failed.expect_err("nothing can be written").to_string();
    assert_eq!(failed, "writing the dump: no space left");
}

#[tokio::test]
async fn a_long_label_and_records_out_of_order_are_errors() {
    let failed = dump::dump(&MemoryStore::new(), &[b'x'; 256], &mut Vec::new(), &()).await;
    assert!(matches!(failed, Err(DumpError::Write(_))), "{failed:?}");
    dump::dump(&MemoryStore::new(), &[b'x'; 255], &mut Vec::new(), &()).await.expect("short");
    let store = Failing::new(0, Fault::Disorder);
    write(&store.store, few()).await;
    let failed = dump::dump(&store, LABEL, &mut Vec::new(), &()).await;
    assert!(matches!(failed, Err(DumpError::Undumpable { .. })), "{failed:?}");
}

/// Remembers the last report of each step.
#[derive(Default)]
struct Watched(std::sync::Mutex<Vec<(Phase, DumpSize)>>);

impl Watcher for Watched {
    fn passed(&self, step: Phase, counts: DumpSize) {
        self.0.lock().expect("no holder panics").push((step, counts));
    }
}

#[tokio::test]
async fn progress_increases_to_the_full_size() {
    let writes = (0..5_000_u64).map(|n| put(Key::new(Space(b'd'), n, b"x"), "some bytes"));
    let mut writes: Vec<Write> = writes.collect();
    writes.push(put(keystone_key(), "the volume"));
    let (store, watched) = (filled(writes).await, Watched::default());
    let mut bytes = Vec::new();
    let summary = dump::dump(&store, LABEL, &mut bytes, &watched).await.expect("a dump");
    let copy = MemoryStore::new();
    dump::load(&copy, &mut Cursor::new(&bytes), &keystone(1), &watched).await.expect("loaded");
    let reports = watched.0.into_inner().expect("no holder panicked");
    for step in [Phase::Dump, Phase::Verify, Phase::Fill] {
        let of_step: Vec<u64> =
            reports.iter().filter(|(at, _)| *at == step).map(|(_, counts)| counts.bytes).collect();
        assert!(of_step.len() > 4, "{step:?}: {of_step:?}");
        assert!(of_step.is_sorted(), "{step:?}: {of_step:?}");
        assert_eq!(of_step.last(), Some(&summary.counts.bytes), "{step:?}");
    }
    assert!(matches!(reports.last(), Some((Phase::Fill, counts)) if *counts == summary.counts));
    assert_eq!(summary.counts.records, 5_001);
}

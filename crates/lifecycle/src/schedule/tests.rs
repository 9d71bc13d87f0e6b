//! Simulated processes with different clocks and one record.

use super::*;

const DAY: Duration = Duration::from_hours(24);
const HOUR: i64 = 3_600_000_000_000;
const BUCKET: Ino = Ino(7);

/// A process whose clock differs from the true time.
#[derive(Debug)]
struct Clocked {
    ahead_hours: i64,
    passes: KnownPasses,
    begun: usize,
    done: usize,
}

impl Clocked {
    fn ahead_by(ahead_hours: i64) -> Clocked {
        Clocked { ahead_hours, passes: KnownPasses::default(), begun: 0, done: 0 }
    }

    /// Reads the record once at a true hour, and does one of the two pages of a pass.
    fn look(&mut self, record: &mut Option<LifecyclePass>, hour: i64) {
        let now = Timestamp((hour + self.ahead_hours) * HOUR);
        let own = OwnPass::at(now, DAY, 1);
        let mut pass = match self.passes.decide(BUCKET, record.as_ref(), own) {
            Decision::Wait => return,
            Decision::Continue(pass) => pass,
            Decision::Begin => {
                self.begun += 1;
                let (configs_version, day) = (1, own.day);
                LifecyclePass { configs_version, day, position: PassPosition::KeysAfter(None) }
            }
        };
        pass.position = match pass.position {
            PassPosition::KeysAfter(None) => PassPosition::KeysAfter(Some(b"k".to_vec())),
            PassPosition::KeysAfter(Some(_)) | PassPosition::Finished => PassPosition::Finished,
        };
        self.done += usize::from(pass.position == PassPosition::Finished);
        self.passes.note(BUCKET, &pass);
        *record = Some(pass);
    }
}

#[test]
fn days_are_counted_from_1970() {
    assert_eq!(day_of(Timestamp(0), DAY), 0);
    assert_eq!(day_of(Timestamp(-1), DAY), -1);
    assert_eq!(day_of(Timestamp(86_400_000_000_000), DAY), 1);
    assert_eq!(day_of(Timestamp(5), Duration::ZERO), 5);
}

#[test]
fn a_recorded_future_day_does_not_block_passes_of_other_processes() {
    for ahead_days in [1, 2, 300] {
        let mut record = None;
        let mut right = Clocked::ahead_by(0);
        (24..30).for_each(|hour| right.look(&mut record, hour));
        assert_eq!(right.done, 1);
        // Three times, a process with a fast clock starts, does its pass, and stops.
        for _ in 0..3 {
            let mut ahead = Clocked::ahead_by(ahead_days * 24);
            (30..34).for_each(|hour| ahead.look(&mut record, hour));
        }
        assert_eq!(record.as_ref().unwrap().day, 1 + ahead_days, "the fault has happened");
        // The earlier process has done its pass of this day. A newly started one has not.
        let mut started = Clocked::ahead_by(0);
        (34..48).for_each(|hour| started.look(&mut record, hour));
        assert_eq!((started.begun, started.done), (1, 1), "{ahead_days}");
        for day in 2..6 {
            let before = right.done;
            (day * 24..day * 24 + 24).for_each(|hour| right.look(&mut record, hour));
            assert_eq!(right.done, before + 1, "{ahead_days}, day {day}");
        }
    }
}

#[test]
fn processes_whose_clocks_differ_begin_one_pass_a_day_each() {
    const DAYS: i64 = 20;
    for (first, second) in [(0, 300 * 24), (0, -300 * 24), (0, 30), (-5, 5), (0, 2)] {
        let mut record = None;
        let mut processes = [Clocked::ahead_by(first), Clocked::ahead_by(second)];
        for hour in 24..24 * (DAYS + 1) {
            for process in &mut processes {
                process.look(&mut record, hour);
            }
        }
        let begun: usize = processes.iter().map(|process| process.begun).sum();
        let done: usize = processes.iter().map(|process| process.done).sum();
        let days = usize::try_from(DAYS).unwrap();
        // A pass that another process has replaced begins again.
        assert!(begun <= 3 * days + 3, "{first} {second}: {begun}");
        assert!(done >= days - 1, "{first} {second}: {done}");
    }
}

#[test]
fn a_clock_that_is_behind_by_less_than_an_hour_waits_at_midnight() {
    let half = Timestamp(47 * HOUR + HOUR / 2);
    let noted = |day| {
        let (configs_version, left) = (1, PassPosition::Finished);
        Some(LifecyclePass { configs_version, day, position: left })
    };
    let passes = KnownPasses::default();
    let at = |now| OwnPass::at(now, DAY, 1);
    assert_eq!(passes.decide(BUCKET, noted(2).as_ref(), at(half)), Decision::Wait);
    let noon = Timestamp(36 * HOUR);
    assert_eq!(passes.decide(BUCKET, noted(2).as_ref(), at(noon)), Decision::Begin);
    assert_eq!(passes.decide(BUCKET, noted(0).as_ref(), at(noon)), Decision::Begin);
    assert_eq!(passes.decide(BUCKET, None, at(noon)), Decision::Begin);
}

#[test]
fn a_process_waits_if_the_record_has_newer_rules() {
    let left = PassPosition::KeysAfter(None);
    let noted = LifecyclePass { configs_version: 2, day: -9, position: left };
    let passes = KnownPasses::default();
    let own = |version| OwnPass::at(Timestamp(36 * HOUR), DAY, version);
    assert_eq!(passes.decide(BUCKET, Some(&noted), own(1)), Decision::Wait);
    assert_eq!(passes.decide(BUCKET, Some(&noted), own(3)), Decision::Begin);
}

#[test]
fn a_pass_that_takes_longer_than_a_day_reaches_its_end() {
    const PAGES: u8 = 100;
    for processes in [1, 2] {
        let known: Vec<_> = (0..processes).map(|_| KnownPasses::default()).collect();
        let (mut record, mut ends): (Option<LifecyclePass>, Vec<i64>) = (None, Vec::new());
        // One page an hour: a pass takes more than four days.
        for hour in 0..24 * 20 {
            let passes = &known[usize::try_from(hour).unwrap() % processes];
            let own = OwnPass::at(Timestamp(hour * HOUR), DAY, 1);
            let mut pass = match passes.decide(BUCKET, record.as_ref(), own) {
                Decision::Wait => continue,
                Decision::Continue(pass) => pass,
                Decision::Begin => {
                    let position = PassPosition::KeysAfter(None);
                    LifecyclePass { configs_version: 1, day: own.day, position }
                }
            };
            pass.position = match pass.position {
                PassPosition::KeysAfter(None) => PassPosition::KeysAfter(Some(vec![1])),
                PassPosition::KeysAfter(Some(key)) if key[0] < PAGES => {
                    PassPosition::KeysAfter(Some(vec![key[0] + 1]))
                }
                PassPosition::KeysAfter(Some(_)) | PassPosition::Finished => PassPosition::Finished,
            };
            if pass.position == PassPosition::Finished {
                ends.push(hour);
            }
            passes.note(BUCKET, &pass);
            record = Some(pass);
        }
        assert!(ends.len() >= 4, "{processes} processes: {ends:?}");
    }
}

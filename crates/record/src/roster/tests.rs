use super::*;

#[test]
fn a_roster_comes_back_from_its_tally() {
    for (first, count) in [(1_024, 1), (1_024, Roster::FILES_MAX), (Roster::END - 3, 3)] {
        let roster = Roster::new(Ino(first), count).expect("one of so many");
        let tally = roster.to_tally();
        assert!(tally > 0 && tally < 1 << 53, "{tally} is exact in a double");
        assert_eq!(Roster::from_tally(tally), roster);
        let files: Vec<Ino> = roster.files().collect();
        assert_eq!(files.len(), count);
        assert_eq!((roster.get(0), roster.get(count)), (Some(Ino(first)), None));
        assert_eq!(roster.get(count - 1), files.last().copied());
        for (file, on) in [(first - 1, false), (first, true), (first + count as u64, false)] {
            assert_eq!(roster.contains(Ino(file)), on, "{file} of {roster:?}");
        }
    }
}

#[test]
fn what_does_not_fit_is_no_roster() {
    for (first, count) in [(1_024, 0), (0, 1), (1_024, 4_096), (Roster::END - 3, 4), (u64::MAX, 1)]
    {
        assert_eq!(Roster::new(Ino(first), count), None, "{count} from {first}");
    }
    for tally in [0, -1, i64::MIN, i64::MAX, 7, 1_024 << 12] {
        assert!(Roster::from_tally(tally).is_empty(), "{tally}");
    }
}

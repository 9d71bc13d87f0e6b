use super::{ALL, Settings, Standing, lacks, positions};
use crate::address::Promises;

fn server(host: &str, position: &str) -> Settings {
    let settings = [("hostname", host), ("port", "3306"), ("gtid_current_pos", position)];
    settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}

fn standing() -> Standing {
    Standing::new(false, Promises::default())
}

/// Returns true for each server that can be used.
fn usable(standing: &Standing, servers: &[&Settings]) -> Vec<bool> {
    standing.compare(servers).iter().map(Option::is_none).collect()
}

#[test]
fn two_servers_that_accept_writes_are_both_refused() {
    let standing = standing();
    let (one, two) = (server("one", "0-1-7"), server("two", "0-1-7"));
    assert_eq!(usable(&standing, &[&one, &two]), [false, false]);
    assert_eq!(usable(&standing, &[&one, &one.clone()]), [true, true], "two addresses");
    standing.record(&one);
    assert_eq!(usable(&standing, &[&one, &two]), [false, false], "the former one may be in use");
    assert_eq!(standing.refusals(), 0);
}

#[test]
fn a_former_primary_is_refused_until_it_has_the_changes_of_its_successor() {
    let standing = standing();
    standing.record(&server("one", "0-1-7"));
    standing.record(&server("two", "0-2-9"));
    assert_eq!(standing.refusals(), 1, "connections to the former primary are not used");
    let (one, two) = (server("one", "0-1-8"), server("two", "0-2-9"));
    assert_eq!(usable(&standing, &[&one, &two]), [false, true]);
    assert_eq!(usable(&standing, &[&one]), [false]);
    let diverged = server("one", "0-1-12");
    assert_eq!(usable(&standing, &[&diverged]), [false], "it has other changes");
    let caught_up = server("one", "0-2-9");
    assert_eq!(usable(&standing, &[&caught_up]), [true]);
    standing.record(&caught_up);
    assert_eq!(usable(&standing, &[&caught_up, &two]), [true, false], "they changed roles");
}

#[test]
fn positions_of_both_products_are_compared() {
    let mysql = |set: &str| positions(&[("gtid_executed".to_owned(), set.to_owned())].into(), &ALL);
    let seen = mysql("3e11:1-5:8-9,\n4f22:7");
    assert_eq!(seen.get("3e11"), Some(&9));
    assert_eq!(seen.get("4f22"), Some(&7));
    assert!(lacks(&mysql("3e11:1-9"), &seen));
    assert!(lacks(&mysql("3e11:1-8,4f22:7"), &seen));
    assert!(!lacks(&mysql("3e11:1-9,4f22:1-7"), &seen));
    assert!(!lacks(&mysql(""), &mysql("")), "without such numbers nothing is known");
    let mariadb = |set: &str| positions(&server("one", set), &ALL);
    assert!(lacks(&mariadb("0-1-7,1-1-2"), &mariadb("1-1-3")));
    assert!(!lacks(&mariadb("0-1-7,0-2-8"), &mariadb("0-1-7")));
}

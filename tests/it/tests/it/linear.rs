//! Clients of several gateways see each key as a linearizable register.

mod versions;

use crate::fleet::{BlockKind, Engine, Fleet, clients, on_each_engine, on_the_drawn_engine};
use crate::load::{Load, Planted};
use crate::scale;
use crate::servers::Gateway;

on_each_engine!(histories_are_linearizable);
on_the_drawn_engine!(planted_faults_are_found);

/// The least number of responses, however long they take.
const ENOUGH: u64 = 800;

fn histories_are_linearizable(engine: Engine) {
    let Some(fleet) = Fleet::new(engine, BlockKind::Bucket) else { return };
    let gateways = fleet.start();
    let clients = clients(&gateways);
    let mut load = Load::new("hot", Planted::None);
    load.run(&clients, |progress| {
        std::thread::sleep(scale::load());
        progress.wait_for_at_least(ENOUGH);
    });
    load.read_all(&clients);
    let figures = load.is_linearizable();
    let bad = figures.of("unknown") + figures.of("later") + figures.of("cut");
    assert_eq!(bad, 0, "there were errors without a fault: {figures}");
    eprintln!("{}: linearizable for {:?}: {figures}", engine.name(), scale::load());
    gateways.iter().for_each(Gateway::check_log);
    fleet.stop_and_check(gateways);
}

/// The same load, with a fault that the test adds to the responses.
fn planted_faults_are_found(engine: Engine) {
    let Some(fleet) = Fleet::new(engine, BlockKind::Folder) else { return };
    let gateways = fleet.start();
    let clients = clients(&gateways);
    for planted in [Planted::StaleReads, Planted::DroppedConditions] {
        let mut load = Load::new(&format!("{planted:?}"), planted);
        load.run(&clients, |progress| progress.wait_for_more(1_500));
        load.read_all(&clients);
        let found = load.check();
        let why = found.expect_err("a history with a planted fault is taken for linearizable");
        assert!(why.contains("has no place"), "{why}");
        let first = why.lines().next().unwrap_or_default();
        eprintln!("{}: {planted:?} was found: {first}", engine.name());
    }
    for gateway in gateways {
        gateway.stop();
    }
}

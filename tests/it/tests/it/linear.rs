//! What clients of several gateways are told of a key is what one register would have told them.

mod versions;

use crate::fleet::{Engine, Fleet, Place, clients, on_each_engine, on_the_drawn_engine};
use crate::load::{Load, Planted};
use crate::scale;
use crate::servers::Gateway;

on_each_engine!(histories_are_linearizable);
on_the_drawn_engine!(planted_faults_are_found);

/// Answers that say something about a key, however long that takes.
const ENOUGH: u64 = 800;

fn histories_are_linearizable(engine: Engine) {
    let Some(fleet) = Fleet::new(engine, Place::Bucket) else { return };
    let gateways = fleet.start();
    let clients = clients(&gateways);
    let mut load = Load::new("hot", Planted::None);
    load.run(&clients, |pulse| {
        std::thread::sleep(scale::load());
        pulse.wait_for_at_least(ENOUGH);
    });
    load.read_all(&clients);
    let figures = load.is_linearizable();
    let bad = figures.of("unknown") + figures.of("later") + figures.of("cut");
    assert_eq!(bad, 0, "nobody disturbed anything: {figures}");
    eprintln!("{}: linearizable for {:?}: {figures}", engine.name(), scale::load());
    gateways.iter().for_each(Gateway::check_log);
    fleet.ends_tidy(gateways);
}

/// The same load, with a fault of the test's own in the way that the gateway could have it.
fn planted_faults_are_found(engine: Engine) {
    let Some(fleet) = Fleet::new(engine, Place::Folder) else { return };
    let gateways = fleet.start();
    let clients = clients(&gateways);
    for planted in [Planted::StaleReads, Planted::DroppedConditions] {
        let mut load = Load::new(&format!("{planted:?}"), planted);
        load.run(&clients, |pulse| pulse.wait_for_more(1_500));
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

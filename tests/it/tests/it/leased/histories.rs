//! Programs on two mounts and clients of two gateways change the same files, and see each file as
//! one linearizable register, while all four sessions answer reads from their caches by leases.

use super::company::Company;
use crate::both_views::load::{KernelCache, Load};
use crate::fleet::{Engine, on_each_server};
use crate::scale;

on_each_server!(files_and_objects_with_leases_are_linearizable);

/// The least number of responses and calls, however long they take.
const ENOUGH: u64 = 800;

/// The least number of reads that each session answers from its cache.
const FROM_CACHE_MIN: u64 = 20;

fn files_and_objects_with_leases_are_linearizable(engine: Engine) {
    let Some(company) = Company::start(engine) else { return };
    let mut load = Load::new(scale::seed());
    let places = company.places();
    let from_cache: Vec<u64> = load.run(&places, KernelCache::Off, |progress| {
        company.wait_for_leases();
        let before = company.reads();
        std::thread::sleep(scale::load());
        progress.wait_for_more(ENOUGH);
        let after = company.reads();
        after
            .iter()
            .zip(&before)
            .map(|(after, before)| after.from_cache - before.from_cache)
            .collect()
    });
    load.read_all(&places);
    let figures = load.is_linearizable();
    let (name, seed) = (engine.name(), scale::seed());
    eprintln!("{name}: seed {seed}: reads from caches {from_cache:?}: {figures}");
    assert!(from_cache.iter().all(|count| *count >= FROM_CACHE_MIN), "{from_cache:?}");
    company.gateways.iter().for_each(crate::servers::Gateway::check_log);
    company.stop_and_check();
}

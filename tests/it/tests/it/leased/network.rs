//! The same histories while a network between the sessions loses connections and delays messages.
//! The gateways are on machines of their own, and other sessions reach them by TCP through proxies.

use std::time::Duration;

use proxy::Proxy;

use super::company::Company;
use crate::both_views::load::{KernelCache, Load};
use crate::fleet::{BlockKind, Engine, Fleet, on_the_drawn_server};
use crate::load::Progress;
use crate::mounted::can_mount;
use crate::scale;
use crate::servers::{Setup, wait_for};

on_the_drawn_server!(histories_are_linearizable_over_a_network_that_fails);

/// The longest delay of what arrives at a session.
const DELAY_MAX: Duration = Duration::from_millis(300);

/// The time for which sessions do not reach each other: longer than leases and promises last.
const CUT_OFF: Duration = Duration::from_millis(1_500);

/// The time limit for the resets. Sessions connect again after up to 5 s.
const RESETS_WITHIN: Duration = Duration::from_mins(10);

/// Responses and calls during and after each fault.
const AFTER: u64 = 60;

/// Returns two gateways on machines of their own, and the proxies through which others reach them.
pub(super) fn remotes(fleet: &Fleet) -> ([Setup; 2], Vec<Proxy>) {
    // The first gateway of the volume makes the master key.
    fleet.first.start().stop();
    let [(first, one), (second, other)] =
        ["fifth", "sixth"].map(|name| remote(fleet.first.sibling(name)));
    ([first, second], vec![one, other])
}

/// A gateway on a machine of its own, and the proxy through which others reach it.
fn remote(setup: Setup) -> (Setup, Proxy) {
    let listen = ports::reserve();
    let proxy = Proxy::start(listen).expect("a proxy");
    let (at, announced) = (listen.to_string(), proxy.address().to_string());
    let options = ["--peer-listen", &at, "--peer-address", &announced];
    (setup.apart().more_options(&options), proxy)
}

fn histories_are_linearizable_over_a_network_that_fails(engine: Engine) {
    if !can_mount() {
        return;
    }
    let Some(fleet) = Fleet::new(engine, BlockKind::Folder) else { return };
    let (setups, proxies) = remotes(&fleet);
    let company = Company::start_as(fleet, &setups);
    let mut load = Load::new(scale::seed()).with_failing_gateways();
    let places = company.places();
    load.run(&places, KernelCache::Off, |progress| {
        company.wait_for_leases();
        let messages = || proxies.iter().map(Proxy::trips).sum::<u64>();
        assert!(messages() > 0, "the gateways are not connected through a proxy");
        delays(&company, &proxies, progress);
        is_cut_off(&company, progress, &|cut| proxies.iter().for_each(|proxy| proxy.hold(cut)));
        is_cut_off(&company, progress, &|cut| proxies.iter().for_each(|proxy| proxy.close(cut)));
        resets(&company, &proxies, progress);
    });
    load.read_all(&places);
    let figures = load.is_linearizable();
    let cuts: u64 = proxies.iter().map(Proxy::cuts).sum();
    let (name, seed) = (engine.name(), scale::seed());
    eprintln!("{name}: {cuts} resets: linearizable with seed {seed}: {figures}");
    company.stop_and_check();
}

#[track_caller]
fn goes_on(company: &Company, progress: &Progress) {
    progress.wait_for_more(AFTER);
    company.wait_for_leases();
}

fn delays(company: &Company, proxies: &[Proxy], progress: &Progress) {
    proxies.iter().for_each(|proxy| proxy.delay(DELAY_MAX));
    progress.wait_for_more(AFTER);
    std::thread::sleep(scale::load());
    let delays: u64 = proxies.iter().map(Proxy::delays).sum();
    assert!(delays >= 20, "only {delays} messages were delayed");
    proxies.iter().for_each(|proxy| proxy.delay(Duration::ZERO));
    goes_on(company, progress);
}

/// Cuts the gateways off from each other and from some mounts for a while.
#[track_caller]
pub(super) fn is_cut_off(company: &Company, progress: &Progress, cut: &dyn Fn(bool)) {
    cut(true);
    std::thread::sleep(CUT_OFF);
    let is_leased = [0, 1].map(|at| company.reads_of_gateway(at).is_leased);
    assert_eq!(is_leased, [false; 2], "a lease of a session that cannot be reached");
    progress.wait_for_more(AFTER);
    cut(false);
    goes_on(company, progress);
}

/// Resets connections, each one a step later than the one before.
fn resets(company: &Company, proxies: &[Proxy], progress: &Progress) {
    let before: u64 = proxies.iter().map(Proxy::cuts).sum();
    for proxy in proxies {
        proxy.reset_at_each_step();
        // Ends the present connections, so that each begins again.
        proxy.close(true);
        proxy.close(false);
    }
    let done = || proxies.iter().map(Proxy::cuts).sum::<u64>() - before >= scale::resets();
    assert!(wait_for(RESETS_WITHIN, done), "few connections were reset");
    proxies.iter().for_each(Proxy::end_resets);
    goes_on(company, progress);
}

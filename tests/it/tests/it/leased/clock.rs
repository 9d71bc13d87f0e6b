//! The same histories while the wall clock of a gateway jumps. Leases are measured by clocks that
//! no operator can set, so they end as early as without a jump if the network is cut off.

use super::CONNECTED;
use super::company::Company;
use super::network::{is_cut_off, remotes};
use crate::both_views::load::{KernelCache, Load};
use crate::fleet::{BlockKind, Engine, Fleet, on_the_drawn_server};
use crate::mounted::can_mount;
use crate::scale;
use crate::servers::{set_clock, wait_for};
use crate::skew::clock;

on_the_drawn_server!(histories_are_linearizable_while_a_clock_jumps);

/// The jumps in seconds: into the future, back into the past, and to the right time. Signatures
/// allow for 15 minutes.
const JUMPS: [i64; 3] = [600, -600, 0];

/// Responses and calls after each jump.
const AFTER: u64 = 60;

fn histories_are_linearizable_while_a_clock_jumps(engine: Engine) {
    if !can_mount() {
        return;
    }
    let Some(fleet) = Fleet::new(engine, BlockKind::Folder) else { return };
    let ([first, second], proxies) = remotes(&fleet);
    let file = fleet.first.folder.join("clock");
    let Some(second) = second.clock_in(&file) else { return };
    let company = Company::start_as(fleet, &[first, second]);
    let mut load = Load::new(scale::seed()).with_failing_gateways();
    let places = company.places();
    let differ = || clock(&company.gateways[1].client) - clock(&company.gateways[0].client);
    load.run(&places, KernelCache::Off, |progress| {
        company.wait_for_leases();
        for jump in JUMPS {
            let hold_and_jump = |cut: bool| {
                proxies.iter().for_each(|proxy| proxy.hold(cut));
                if cut {
                    set_clock(&file, jump);
                }
            };
            // Without a lease at this moment the jump could not extend one.
            let is_leased = || company.reads_of_gateway(1).is_leased;
            assert!(wait_for(CONNECTED, is_leased), "the gateway has no lease");
            is_cut_off(&company, progress, &hold_and_jump);
            let day = 24 * 60 * 60;
            let off = (differ() - jump + day / 2).rem_euclid(day) - day / 2;
            assert!(off.abs() <= 30, "the clock did not jump by {jump} s: it is off by {off} s");
            progress.wait_for_more(AFTER);
        }
    });
    load.read_all(&places);
    let figures = load.is_linearizable();
    eprintln!("{}: linearizable with seed {}: {figures}", engine.name(), scale::seed());
    company.gateways[0].client.delete("/box/clock").expect(204);
    company.stop_and_check();
}

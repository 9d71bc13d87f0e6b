//! The same histories while sessions with leases are stopped for a while, ended for their silence,
//! killed and replaced.

use std::time::{Duration, Instant};

use super::company::{Company, stop_for};
use crate::both_views::load::{KernelCache, Load};
use crate::fleet::{Engine, on_the_drawn_server};
use crate::load::Progress;
use crate::scale;
use crate::servers::wait_for;

on_the_drawn_server!(histories_are_linearizable_while_sessions_are_stopped_and_killed);

/// The stops after which a session continues: shorter than a lease, as long as a promise of notice,
/// and longer.
const STOPS: [Duration; 3] =
    [Duration::from_millis(300), Duration::from_secs(1), Duration::from_secs(5)];

/// The stop from which no other session can hold a lease of the stopped one.
const LEASES_END: Duration = Duration::from_secs(1);

/// The silence after which the other sessions end a session.
const SILENCE: Duration = Duration::from_secs(30);

/// The time limit for the end of a silent session on a busy machine.
const ENDED_WITHIN: Duration = Duration::from_secs(50);

/// Responses and calls after each fault.
const AFTER: u64 = 60;

fn histories_are_linearizable_while_sessions_are_stopped_and_killed(engine: Engine) {
    let Some(mut company) = Company::start(engine) else { return };
    let mut load = Load::new(scale::seed()).with_failing_gateways();
    let places = company.places();
    load.run(&places, KernelCache::Off, |progress| {
        company.wait_for_leases();
        for stop in STOPS {
            stops(&company, stop, progress);
        }
        company.mounts[0].kill_worker();
        goes_on(&company, progress);
        if scale::longest_stop() > SILENCE {
            stops_until_it_is_ended(&mut company, progress);
        }
        kills_a_gateway(&mut company, progress);
    });
    load.read_all(&places);
    let figures = load.is_linearizable();
    let (name, seed) = (engine.name(), scale::seed());
    eprintln!("{name}: linearizable with seed {seed}: {figures}");
    company.stop_and_check();
}

/// Waits for further responses, and until all sessions hold leases again.
#[track_caller]
fn goes_on(company: &Company, progress: &Progress) {
    progress.wait_for_more(AFTER);
    company.wait_for_leases();
}

/// Stops a gateway, and then the worker of a mount.
fn stops(company: &Company, stop: Duration, progress: &Progress) {
    let worker = company.mounts[1].worker().expect("the mount is served");
    for process in [company.gateways[1].child.pid(), worker] {
        stop_for(process, stop, || {
            let is_leased = company.reads_of_gateway(0).is_leased;
            assert!(stop < LEASES_END || !is_leased, "a lease of a session that was stopped");
        });
        goes_on(company, progress);
    }
}

/// Stops a gateway until the other sessions have ended its session, and starts it again.
fn stops_until_it_is_ended(company: &mut Company, progress: &Progress) {
    stop_for(company.gateways[1].child.pid(), scale::longest_stop(), || {});
    let status = company.gateways[1].child.wait();
    let log = company.gateways[1].log_of_this_run();
    assert!(status.code() == Some(1) && log.contains("its session was ended"), "{status}\n{log}");
    restart(company);
    goes_on(company, progress);
}

/// Kills a gateway and starts it again. Its session stays until the others end it, so no session
/// has leases of all others until then; the full proof waits for it.
fn kills_a_gateway(company: &mut Company, progress: &Progress) {
    company.gateways[1].child.kill();
    let began = Instant::now();
    progress.wait_for_more(AFTER);
    restart(company);
    progress.wait_for_more(AFTER);
    if scale::longest_stop() > SILENCE {
        let leased = || company.reads_of_gateway(0).is_leased;
        assert!(wait_for(ENDED_WITHIN, leased), "the killed session is not ended");
        eprintln!("leases were back {:?} after the kill", began.elapsed());
        goes_on(company, progress);
    }
}

fn restart(company: &mut Company) {
    let address = company.gateways[1].address().to_owned();
    company.gateways[1] = company.fleet.second().at(&address).start();
}

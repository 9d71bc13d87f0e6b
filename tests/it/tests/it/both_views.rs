//! Programs on two mounts and clients of two gateways change the same few files, and see each file
//! as one linearizable register.
//!
//! The first process starts alone, gets a peer under load, and is alone again at the end. While it
//! is alone, its kernel caches names and their absence until a change of them is acknowledged. So
//! S3 may show a change in flight a moment before the mount does. With a peer, the kernel caches
//! nothing.

pub(crate) mod load;
mod values;

use crate::fleet::{BlockKind, Engine, Fleet, on_each_engine, on_the_drawn_server};
use crate::mounted::{Mount, can_mount};
use crate::scale;
use load::{KernelCache, Load, ViewPair};

on_each_engine!(files_and_objects_are_linearizable);
on_the_drawn_server!(opens_are_linearizable_with_cached_names);

/// The least number of responses and calls, however long they take.
const ENOUGH: u64 = 800;

fn files_and_objects_are_linearizable(engine: Engine) {
    if !can_mount() {
        return;
    }
    let Some(fleet) = Fleet::new(engine, BlockKind::Folder) else { return };
    let folder = fleet.first.folder.join("mounts");
    let first = begin(&fleet, &[]);
    let mut places = vec![ViewPair::new(&first)];
    let mut load = Load::new(scale::seed());
    let lasts = scale::load() / 3;
    if engine == Engine::Sqlite {
        load.run(&places, KernelCache::UntilAcknowledged, |progress| {
            std::thread::sleep(3 * lasts);
            progress.wait_for_at_least(ENOUGH);
        });
    } else {
        let second = load.run(&places, KernelCache::UntilAcknowledged, |progress| {
            std::thread::sleep(lasts);
            progress.wait_for_at_least(ENOUGH / 4);
            Mount::start(&fleet.second(), &folder.join("second"))
        });
        places.push(ViewPair::new(&second));
        load.run(&places, KernelCache::Off, |progress| {
            std::thread::sleep(lasts);
            progress.wait_for_more(ENOUGH / 2);
        });
        load.read_all(&places);
        places.pop();
        load.run(&places, KernelCache::UntilAcknowledged, |progress| {
            second.gateway().check_log();
            second.stop();
            std::thread::sleep(lasts);
            progress.wait_for_more(ENOUGH / 4);
        });
    }
    load.read_all(&places);
    let figures = load.is_linearizable();
    eprintln!("{}: linearizable with seed {}: {figures}", engine.name(), scale::seed());
    first.gateway().check_log();
    stop_and_check(&fleet, first);
}

/// With `--coherence pushed` a kernel may cache names and attributes for one second, even if
/// another process acknowledges a change meanwhile. An open nevertheless finds the current file.
fn opens_are_linearizable_with_cached_names(engine: Engine) {
    if !can_mount() {
        return;
    }
    let Some(fleet) = Fleet::new(engine, BlockKind::Folder) else { return };
    let pushed = ["--coherence", "pushed"];
    let first = begin(&fleet, &pushed);
    let folder = fleet.first.folder.join("mounts/second");
    let second = Mount::start_with(&fleet.second(), &folder, &pushed);
    let places = [ViewPair::new(&first), ViewPair::new(&second)];
    let mut load = Load::new(scale::seed());
    load.run(&places, KernelCache::Pushed, |progress| {
        std::thread::sleep(scale::load());
        progress.wait_for_at_least(ENOUGH);
    });
    // The cached names and attributes have expired.
    std::thread::sleep(std::time::Duration::from_secs(2));
    load.read_all(&places);
    let figures = load.is_linearizable();
    eprintln!("{}: linearizable with seed {}: {figures}", engine.name(), scale::seed());
    [&first, &second].iter().for_each(|mount| mount.gateway().check_log());
    second.stop();
    stop_and_check(&fleet, first);
}

/// Starts the first mount, with the directories in which the programs work.
fn begin(fleet: &Fleet, options: &[&str]) -> Mount {
    let folder = fleet.first.folder.join("mounts/first");
    let mount = Mount::start_with(&fleet.first, &folder, options);
    mount.gateway().client.put("/box", b"").expect(200);
    std::fs::create_dir_all(mount.folder.join("box/hot")).expect("a directory");
    std::fs::create_dir_all(mount.folder.join("box/aside")).expect("another one");
    mount
}

/// Removes everything on the last mount, and fails if blocks remain.
fn stop_and_check(fleet: &Fleet, mount: Mount) {
    for place in ["hot", "aside"] {
        std::fs::remove_dir_all(mount.folder.join("box").join(place)).expect("all can be removed");
    }
    mount.stop();
    fleet.stop_and_check(Vec::new());
}

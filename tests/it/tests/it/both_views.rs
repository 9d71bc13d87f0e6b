//! Programs on two mounts and clients of two gateways, which change the same few files, are told what
//! one register for each file would have told them.
//!
//! The first process begins alone, gets company under load, and is alone again at the end. While it is
//! alone its kernel remembers what is there and what is not, until a change of that is acknowledged:
//! of one that is under way S3 may tell a moment before the mount does. With company nothing is
//! remembered.

mod load;
mod values;

use crate::fleet::{Engine, Fleet, Place, on_each_engine};
use crate::mounted::{Mount, can_mount};
use crate::scale;
use load::{Load, Place as Folder};

on_each_engine!(files_and_objects_are_one_register_each);

/// How often clients and programs are told something at least, however long that takes.
const ENOUGH: u64 = 800;

fn files_and_objects_are_one_register_each(engine: Engine) {
    if !can_mount() {
        return;
    }
    let Some(fleet) = Fleet::new(engine, Place::Folder) else { return };
    let folder = fleet.first.folder.join("mounts");
    let first = Mount::start(&fleet.first, &folder.join("first"));
    first.gateway().client.put("/box", b"").expect(200);
    std::fs::create_dir_all(first.folder.join("box/hot")).expect("a directory");
    std::fs::create_dir_all(first.folder.join("box/aside")).expect("another one");
    let mut places = vec![Folder::new(&first)];
    let mut load = Load::new(scale::seed());
    let lasts = scale::load() / 3;
    if engine == Engine::Sqlite {
        load.run(&places, true, |pulse| {
            std::thread::sleep(3 * lasts);
            pulse.wait_for_at_least(ENOUGH);
        });
    } else {
        let second = load.run(&places, true, |pulse| {
            std::thread::sleep(lasts);
            pulse.wait_for_at_least(ENOUGH / 4);
            Mount::start(&fleet.second(), &folder.join("second"))
        });
        places.push(Folder::new(&second));
        load.run(&places, false, |pulse| {
            std::thread::sleep(lasts);
            pulse.wait_for_more(ENOUGH / 2);
        });
        load.read_all(&places);
        places.pop();
        load.run(&places, true, |pulse| {
            second.gateway().check_log();
            second.stop();
            std::thread::sleep(lasts);
            pulse.wait_for_more(ENOUGH / 4);
        });
    }
    load.read_all(&places);
    let figures = load.is_linearizable();
    eprintln!("{}: linearizable with seed {}: {figures}", engine.name(), scale::seed());
    first.gateway().check_log();
    for place in ["hot", "aside"] {
        std::fs::remove_dir_all(first.folder.join("box").join(place)).expect("all can be removed");
    }
    first.stop();
    fleet.ends_tidy(Vec::new());
}

//! Locks that are set while a program has dirty data of the file.

use volume::ObjectChange;

use super::World;
use super::model::{BUCKETS, HELD, Name};

impl World {
    /// A program writes to a file, and a client sets a legal hold before the flush, which fails.
    /// Then the client mostly releases the hold, and the next flush stores the write.
    pub(crate) async fn hold_operation(&mut self) {
        let (mount, name) = (self.dice.below(2), self.key_of(HELD));
        let Some(id) = self.open_to_write(mount, name).await else { return };
        let place = |world: &World| {
            let mut handles = world.open.handles.iter();
            handles.position(|it| (it.mount, it.id) == (mount, id)).expect("it is open")
        };
        self.write(place(self)).await;
        self.tick();
        self.set_hold(name, true).await;
        self.sync(place(self)).await;
        if !self.dice.one_in(4) {
            self.tick();
            self.set_hold(name, false).await;
            self.sync(place(self)).await;
        }
    }

    async fn set_hold(&mut self, name: Name, hold: bool) {
        self.record(format!("legal hold of {name:?}: {hold}"));
        let (bucket, key) = (BUCKETS[name.0], name.1.as_bytes());
        let change = ObjectChange::LegalHold(hold);
        let changed = self.gateway.change_object(bucket, key, None, None, change).await;
        changed.expect("a legal hold can be set");
        let file = self.model.current(name).expect("an object").file;
        self.model.split(file);
        self.model.body_mut(file).lock.legal_hold = Some(hold);
        self.check_key(name).await;
    }
}

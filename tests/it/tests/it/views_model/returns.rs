//! Keys that are deleted and restored below a new directory, with another inode number, while
//! programs have their files open.

use super::World;
use super::model::{KEPT, KEYS, Name, TRASH};
use super::tree::cut;

/// Length of an object that is inline in its inode, in bytes. Its record's key contains the
/// directory, so a write needs the current name.
const SMALL: usize = 9;

impl World {
    /// A program opens a file, a client deletes the object, and another program removes the
    /// directory. Then the client restores the object, and the first program writes to its file.
    pub(crate) async fn return_operation(&mut self) {
        let bucket = self.dice.of(&[KEPT, TRASH]);
        let names: Vec<Name> = KEYS.map(|key| (bucket, key)).into_iter().collect();
        let names: Vec<Name> = names.into_iter().filter(|name| self.is_alone(*name)).collect();
        if names.is_empty() {
            return;
        }
        let (name, mount) = (self.dice.of(&names), self.dice.below(2));
        if self.dice.one_in(2) {
            self.put_of(name, SMALL, false).await;
            self.tick();
        }
        let Some(id) = self.open_to_write(mount, name).await else { return };
        self.delete(name).await;
        self.tick();
        let mut directory = cut(name.1).0;
        while !directory.is_empty() && self.model.below(bucket, directory).is_empty() {
            self.remove_directory(1 - mount, bucket, directory).await;
            directory = cut(directory).0;
        }
        self.tick();
        if bucket == TRASH {
            self.restore(name, 0, false).await;
        } else {
            let Some(marker) = self.model.key(name).older.first().copied() else { return };
            self.remove(name, marker.id.expect("a marker has been seen"), false).await;
        }
        self.counts.returned += 1;
        self.tick();
        let at = self.open.handles.iter().position(|it| (it.mount, it.id) == (mount, id));
        let at = at.expect("it is open");
        self.write(at).await;
        if self.dice.one_in(2) {
            let at = self.open.handles.iter().position(|it| (it.mount, it.id) == (mount, id));
            self.sync(at.expect("it is open")).await;
        }
    }

    /// Returns true if no other key is below the directory of this key.
    fn is_alone(&self, (bucket, key): Name) -> bool {
        let directory = cut(key).0;
        let others = self.model.below(bucket, directory);
        !directory.is_empty() && others.iter().all(|other| *other == key)
    }
}

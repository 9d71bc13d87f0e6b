use std::sync::Arc;

use block::MemoryBlocks;
use record::{AccountId, LastUse, User, key};
use store::{MemoryStore, MetaStore, Plan, Write};
use volume::{AccessRecords, VolumeOptions};

use super::super::{MasterKey, Secret};
use super::*;

const NOW: OffsetDateTime = OffsetDateTime::UNIX_EPOCH;

fn user(access_key: &str, secret: &str) -> (String, User) {
    let master = MasterKey::new([7; MasterKey::BYTES]);
    let sealed = master.seal(access_key, &Secret::new(secret), [1; MasterKey::NONCE_BYTES]);
    (access_key.to_owned(), User::new(AccountId::MAIN, sealed))
}

fn access(users: &[(String, User)]) -> Access {
    let root = Identity::root("root", Secret::new("rootsecret"));
    let access = Access::new(root, MasterKey::new([7; MasterKey::BYTES]));
    replace(&access, users);
    access
}

fn replace(access: &Access, users: &[(String, User)]) {
    let records = AccessRecords { users: users.to_vec(), ..AccessRecords::default() };
    assert_eq!(access.replace(records), []);
}

fn use_at(access: &Access, access_key: &str, seconds: i64) {
    let identity = access.lookup(access_key, NOW).expect("a known key");
    identity.note_use(NOW + time::Duration::seconds(seconds));
}

async fn open(store: &Arc<dyn MetaStore>) -> Arc<Volume> {
    let blocks = Arc::new(MemoryBlocks::new());
    Volume::open(VolumeOptions::default(), Arc::clone(store), blocks).await.expect("a volume")
}

async fn written(store: &dyn MetaStore, access_key: &str) -> Option<i64> {
    let at = key::last_use(access_key);
    let value = faulty::get(store, &at).await?;
    Some(LastUse::decode(&at, &value).expect("a last use").at.0 / 1_000_000_000)
}

#[tokio::test]
async fn the_last_use_is_written_once_and_survives_a_new_snapshot() {
    let store: Arc<dyn MetaStore> = Arc::new(MemoryStore::new());
    let volume = open(&store).await;
    let (anna, bert) = (user("anna", "hers"), user("bert", "his"));
    let put = |(name, user): &(String, User)| {
        let at = key::user(name);
        Write::Put(at.clone(), user.encode(&at))
    };
    let writes = vec![put(&anna), put(&bert)];
    store.commit(&[Plan { guards: Vec::new(), writes }]).await.expect("two access keys");
    let access = access(&[anna.clone(), bert.clone()]);
    use_at(&access, "anna", 7);
    use_at(&access, "anna", 5);
    access.lookup("root", NOW).expect("root").note_use(NOW);
    let disabled = (bert.0.clone(), User { description: "changed".to_owned(), ..bert.1.clone() });
    replace(&access, &[anna.clone(), disabled]);
    access.write_last_uses(&volume).await.expect("a write");
    assert_eq!(written(&*store, "anna").await, Some(7), "the later of two uses");
    assert_eq!(written(&*store, "bert").await, None);
    assert!(access.unwritten_uses().is_empty(), "nothing is written twice");
    let other = user("anna", "another's");
    use_at(&access, "anna", 9);
    replace(&access, &[other]);
    assert!(access.unwritten_uses().is_empty(), "another secret is another key");
    volume.close().await;
}

#[tokio::test(start_paused = true)]
async fn last_uses_are_written_at_the_stop() {
    let store: Arc<dyn MetaStore> = Arc::new(MemoryStore::new());
    let volume = open(&store).await;
    let anna = user("anna", "hers");
    let at = key::user("anna");
    let writes = vec![Write::Put(at.clone(), anna.1.encode(&at))];
    store.commit(&[Plan { guards: Vec::new(), writes }]).await.expect("an access key");
    let access = access(&[anna]);
    let stop = CancellationToken::new();
    let ended = async {
        use_at(&access, "anna", 3);
        tokio::time::sleep(WRITE_INTERVAL / 2).await;
        assert_eq!(written(&*store, "anna").await, None, "no request writes it");
        stop.cancel();
    };
    tokio::join!(access.keep_last_uses(&volume, &stop), ended);
    assert_eq!(written(&*store, "anna").await, Some(3));
    volume.close().await;
}

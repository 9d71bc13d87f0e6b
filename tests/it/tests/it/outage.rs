//! MinIO stopped and killed: only stored objects are acknowledged, each request gets a response in
//! time, and the gateway recovers with MinIO.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use tempfile::TempDir;

use crate::client::{Answer, Client, Request};
use crate::content::{bytes, etag};
use crate::servers::{Blocks, Gateway, Minio, Setup, wait_for};

/// The time limit of an error of a PUT.
const DEADLINE: Duration = Duration::from_secs(15);

/// The time limit until the gateway notices that MinIO is back.
const RECOVERY: Duration = Duration::from_secs(30);

/// The time limit until the blocks of refused uploads are deleted. If MinIO does not answer the
/// first deletions of a block, the gateway deletes it again a minute later.
const CLEANED: Duration = Duration::from_secs(100);

/// Length of an object that is too large for a record, so that it needs the bucket, in bytes.
const LARGE: usize = 300_000;

struct Scene {
    gateway: Gateway,
    client: Client,
    minio: Minio,
    _folder: TempDir,
}

impl Scene {
    fn new() -> Option<Scene> {
        let folder = tempfile::tempdir().expect("a folder");
        let minio = Minio::start(folder.path())?;
        let gateway = Setup::new(folder.path(), Blocks::Bucket(minio.address.clone())).start();
        let client = gateway.client.clone();
        client.put("/box", b"").expect(200);
        client.put("/box/small", &bytes(1, 1000)).expect(200);
        client.put("/box/large", &bytes(2, LARGE)).expect(200);
        Some(Scene { gateway, client, minio, _folder: folder })
    }

    /// Without MinIO: requests that need it are refused in time, and others succeed.
    #[track_caller]
    fn serves_what_it_can(&self) {
        let puts = [("/box/new", 10), ("/box/large", 11), ("/box/small", 12)];
        let upload = self.client.begin_upload("/box/parts");
        let part = format!("/box/parts?partNumber=1&uploadId={upload}");
        std::thread::scope(|scope| {
            for (path, seed) in puts {
                scope.spawn(move || self.is_refused_in_time(path, &bytes(seed, LARGE)));
            }
            scope.spawn(|| self.is_refused_in_time(&part, &bytes(13, LARGE)));
            scope.spawn(|| {
                let small = self.client.get("/box/small").expect(200);
                assert!(small.body == bytes(1, 1000), "an object in its record is served");
                self.client.put("/box/tiny", &bytes(3, 2000)).expect(200);
            });
        });
        let parts = self.client.get(&format!("/box/parts?uploadId={upload}")).expect(200);
        assert_eq!(parts.elements("PartNumber"), Vec::<String>::new());
        self.client.delete(&format!("/box/parts?uploadId={upload}")).expect(204);
        assert_eq!(self.client.keys("box", "", 1000), ["large", "small", "tiny"]);
        let large = self.client.send(&Request::new("HEAD", "/box/large")).expect(200);
        assert_eq!(large.header("etag"), etag(&bytes(2, LARGE)), "nothing was overwritten");
        let alive = self.client.get("/-/healthy").status;
        assert_eq!(alive, 200, "an outage behind the gateway is no reason to restart it");
    }

    #[track_caller]
    fn is_refused_in_time(&self, path: &str, content: &[u8]) {
        let began = Instant::now();
        let answer = self.client.put(path, content);
        let took = began.elapsed();
        let said = (answer.status, answer.code());
        let expected =
            matches!((said.0, said.1.as_str()), (503, "ServiceUnavailable" | "SlowDown"));
        assert!(expected, "PUT {path}: {said:?}");
        assert!(took < DEADLINE, "PUT {path} took {took:?}");
    }

    /// With MinIO back: all objects are unchanged, and refused requests now succeed.
    #[track_caller]
    fn recovers(self) {
        let works =
            wait_for(RECOVERY, || self.client.put("/box/again", &bytes(20, LARGE)).status == 200);
        assert!(works, "PUT does not work again:\n{}", self.gateway.log());
        assert!(wait_for(RECOVERY, || self.client.get("/-/ready").status == 200), "not ready");
        for (path, seed, length) in
            [("small", 1, 1000), ("large", 2, LARGE), ("tiny", 3, 2000), ("again", 20, LARGE)]
        {
            let answer = self.client.get(&format!("/box/{path}")).expect(200);
            assert!(answer.body == bytes(seed, length), "{path}");
        }
        // A refused PUT may have reached the bucket. Its blocks are deleted.
        for path in ["large", "again"] {
            self.client.delete(&format!("/box/{path}")).expect(204);
        }
        let empty = wait_for(CLEANED, || self.minio.blocks().is_empty());
        assert!(empty, "blocks are left over: {:?}", self.minio.blocks());
        self.gateway.stop();
    }
}

#[test]
fn requests_fail_in_time_while_minio_hangs() {
    let Some(scene) = Scene::new() else { return };
    scene.minio.child.signal(Signal::STOP);
    scene.serves_what_it_can();
    scene.minio.child.signal(Signal::CONT);
    scene.recovers();
}

#[test]
fn requests_fail_in_time_while_minio_is_killed() {
    let Some(mut scene) = Scene::new() else { return };
    scene.minio.child.kill();
    scene.serves_what_it_can();
    scene.minio.restart();
    scene.recovers();
}

#[test]
fn no_acknowledged_upload_is_lost_when_minio_is_killed() {
    let Some(mut scene) = Scene::new() else { return };
    let seeds: Vec<u64> = (100..124).collect();
    let put = |client: &Client, seed: u64| {
        let path = format!("/box/during-{seed}");
        client.try_send(&Request::new("PUT", &path).body(bytes(seed, 2_000_000)))
    };
    let client = scene.client.clone();
    let answers: Vec<(u64, std::io::Result<Answer>)> = std::thread::scope(|scope| {
        let client = &client;
        let running: Vec<_> =
            seeds.iter().map(|&seed| (seed, scope.spawn(move || put(client, seed)))).collect();
        // Kill after some blocks have arrived and while uploads are in flight.
        let begun = wait_for(Duration::from_secs(30), || scene.minio.blocks().len() > 20);
        assert!(begun, "no block arrived");
        scene.minio.child.kill();
        running
            .into_iter()
            .map(|(seed, thread)| (seed, thread.join().expect("the client does not panic")))
            .collect()
    });
    scene.minio.restart();
    let is_stored =
        |answer: &std::io::Result<Answer>| answer.as_ref().is_ok_and(|answer| answer.status == 200);
    let refused = answers.iter().filter(|(_, answer)| !is_stored(answer)).count();
    assert!(refused > 0, "no upload was under way when MinIO was killed");
    let works =
        wait_for(RECOVERY, || scene.client.put("/box/probe", &bytes(5, LARGE)).status == 200);
    assert!(works, "PUT does not work again");
    for (seed, answer) in &answers {
        let path = format!("/box/during-{seed}");
        let stored = scene.client.get(&path);
        if is_stored(answer) {
            assert_eq!(stored.status, 200, "{path} was acknowledged");
        }
        if stored.status == 200 {
            assert!(stored.body == bytes(*seed, 2_000_000), "{path} is torn");
        } else {
            assert_eq!(stored.code(), "NoSuchKey", "{path}");
        }
    }
    for key in scene.client.keys("box", "", 1000) {
        scene.client.delete(&format!("/box/{key}")).expect(204);
    }
    let empty = wait_for(CLEANED, || scene.minio.blocks().is_empty());
    assert!(empty, "blocks are left over: {:?}", scene.minio.blocks());
    scene.gateway.stop();
}

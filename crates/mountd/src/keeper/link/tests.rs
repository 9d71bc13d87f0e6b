use super::*;

#[test]
fn the_keeper_parses_messages_of_workers() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    (&theirs).write_all(b"opened\nserving\nwhat\nfailed cannot open: \xc3\xa4\n").unwrap();
    drop(theirs);
    let mut heard = Vec::new();
    listen(ours, |said| heard.push(said));
    let why = FromWorker::Failed("cannot open: ä".to_owned());
    assert_eq!(heard, [FromWorker::Opened, FromWorker::Serving, why]);
}

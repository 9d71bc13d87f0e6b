use std::ffi::OsString;
use std::sync::mpsc::{channel, sync_channel};

use super::{Notice, NoticeQueue, NoticeRefused};
use crate::errno::Errno;
use crate::node::NodeId;

fn notice() -> Notice {
    Notice::InvalEntry { parent: NodeId::ROOT, name: OsString::from("name") }
}

/// The sending thread ends with the mount, and drops the queue with the notifications in it.
#[test]
fn notices_in_a_dropped_queue_report_that_the_mount_is_gone() {
    let (sender, receiver) = sync_channel(3);
    let (queue, (report, reports)) = (NoticeQueue(sender), channel());
    for number in 0..3 {
        let report = report.clone();
        queue.push_with(notice(), move |sent| report.send((number, sent)).unwrap()).unwrap();
    }
    let full = queue.push_with(notice(), |_| unreachable!("it was refused"));
    assert_eq!(full, Err(NoticeRefused::Full));
    drop((receiver, report));
    let results: Vec<_> = reports.iter().collect();
    assert_eq!(results, [0, 1, 2].map(|number| (number, Err(Errno::ENODEV))));
    let gone = queue.push_with(notice(), |_| unreachable!("it was refused"));
    assert_eq!(gone, Err(NoticeRefused::Gone));
}

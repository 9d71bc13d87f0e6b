use std::path::PathBuf;

use audit::LogSink;

use super::super::{File, Watching};

#[test]
fn a_mount_has_its_own_listener_and_log_and_none_by_default() {
    let file = File {
        admin_listen: Some("127.0.0.1:9701".to_owned()),
        access_log: Some("of-gateway.log".to_owned()),
        ..File::default()
    };
    let settings = Watching::default().settle(&file).expect("it settles");
    assert_eq!((settings.access_log, settings.admin_listen), (LogSink::Off, None));
    let options = Watching {
        mount_access_log: Some("of-mount.log".to_owned()),
        mount_admin_listen: Some("127.0.0.1:0".to_owned()),
        ..Watching::default()
    };
    let settings = options.settle(&file).expect("it settles");
    assert_eq!(settings.access_log, LogSink::File(PathBuf::from("of-mount.log")));
    assert_eq!(settings.admin_listen.as_deref(), Some("127.0.0.1:0"));
}

#[test]
fn a_mount_cannot_log_to_standard_output() {
    let options = Watching { mount_access_log: Some("-".to_owned()), ..Watching::default() };
    options.settle(&File::default()).expect_err("standard output");
}

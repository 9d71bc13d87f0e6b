use super::*;

fn said(words: &[&str]) -> Result<Vec<OsString>, String> {
    mount_arguments(words.iter().map(OsString::from))
}

#[test]
fn an_fstab_line_becomes_a_mount_command() {
    let options = "rw,nofail,_netdev,x-systemd.after=minio.service,allow_other,write-memory=1GiB";
    let command = said(&["/etc/ashlar.toml", "/mnt/ashlar", "-n", "-o", options]).unwrap();
    let expected = [
        "mount",
        "/mnt/ashlar",
        "--config",
        "/etc/ashlar.toml",
        "--allow-other",
        "--write-memory=1GiB",
    ];
    assert_eq!(command, expected);
    let command = said(&[
        "none",
        "/mnt/ashlar",
        "-o",
        "ro,noatime,relatime,subdir=photos/2026,uid=7,umask=007",
    ])
    .unwrap();
    let expected = [
        "mount",
        "/mnt/ashlar",
        "--read-only",
        "--noatime",
        "--subdir=photos/2026",
        "--uid=7",
        "--umask=007",
    ];
    assert_eq!(command, expected);
    assert_eq!(said(&["none", "/mnt/ashlar"]).unwrap(), ["mount", "/mnt/ashlar"]);
}

#[test]
fn invalid_helper_arguments_are_refused() {
    for words in [&["/etc/ashlar.toml"][..], &["a", "b", "c"], &["a", "b", "-o"], &["a", "b", "-x"]]
    {
        assert!(said(words).is_err(), "{words:?}");
    }
}

#[test]
fn the_helper_is_recognized_by_its_file_name() {
    assert!(is_mount_helper(OsStr::new("/sbin/mount.ashlar")));
    assert!(!is_mount_helper(OsStr::new("/usr/bin/ashlar")));
}

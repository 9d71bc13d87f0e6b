use super::{options_text, permits_others, text};
use crate::mounting::MountOptions;

#[test]
fn a_comma_in_the_source_does_not_end_the_option() {
    let mut options = MountOptions::new("a,b\\c", "ashlar");
    options.allow_other = true;
    options.read_only = true;
    options.read_bytes_max = Some(4096);
    assert_eq!(
        options_text(&options),
        "ro,nosuid,nodev,fsname=a\\,b\\\\c,subtype=ashlar,allow_other,default_permissions,\
         max_read=4096"
    );
}

#[test]
fn fusermount_message_is_reported_without_its_prefix() {
    assert_eq!(text(b"fusermount3: mount failed: EPERM\n"), "mount failed: EPERM");
    assert_eq!(text(b""), "");
}

#[test]
fn only_its_own_line_permits_allow_other() {
    assert!(permits_others("# comment\nmount_max = 1000\n  user_allow_other\n"));
    for without in ["", "#user_allow_other\n", "user_allow_others\n"] {
        assert!(!permits_others(without), "{without:?}");
    }
}

use super::Errno;

#[test]
fn error_number_outside_1_to_511_is_refused() {
    assert_eq!(Errno::new(0), None);
    assert_eq!(Errno::new(-5), None);
    assert_eq!(Errno::new(512), None);
    assert_eq!(Errno::new(70_000), None);
    assert_eq!(Errno::new(511).map(Errno::number), Some(511));
}

#[test]
fn errors_show_their_name_and_system_text() {
    assert_eq!(format!("{:?}", Errno::ESTALE), "ESTALE");
    assert_eq!(format!("{:?}", Errno::new(133)), "Some(Errno(133))");
    assert!(Errno::ENOENT.to_string().starts_with("No such file"));
}

#[test]
fn error_numbers_match_the_system() {
    assert_eq!(Errno::from(rustix::io::Errno::STALE), Errno::ESTALE);
    assert_eq!(Errno::from(rustix::io::Errno::NODATA), Errno::ENODATA);
    assert_eq!(Errno::from(rustix::io::Errno::NOTEMPTY), Errno::ENOTEMPTY);
    assert_eq!(Errno::from(rustix::io::Errno::OPNOTSUPP), Errno::EOPNOTSUPP);
    assert_eq!(Errno::from(rustix::io::Errno::DQUOT), Errno::EDQUOT);
    assert_eq!(Errno::from(rustix::io::Errno::DEADLK), Errno::EDEADLK);
}

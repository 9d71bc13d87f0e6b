use super::*;

#[test]
fn the_newest_symbol_of_glibc_decides() {
    let bytes = b"\0GLIBC_2.9\0GLIBC_2.34\0GLIBC_2.3.4\0GLIBC_PRIVATE\0GCC_3.0\0";
    assert_eq!(newest_symbol(bytes), Some((2, 34)));
    assert_eq!(newest_symbol(b"\0GCC_3.0\0"), None);
}

#[test]
fn the_control_file_ends_each_line_and_continues_the_description() {
    let control = control("1.2.3", "amd64", "2.36", 7);
    assert!(control.contains("\nDepends: adduser, ca-certificates, libc6 (>= 2.36), libgcc-s1\n"));
    let (_, description) = control.split_once("\nDescription: ").expect("a description");
    assert!(description.lines().skip(1).all(|line| line.starts_with(' ')), "{description}");
    assert!(control.ends_with('\n'));
}

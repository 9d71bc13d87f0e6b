use super::safe_name;

#[test]
fn names_stay_in_the_folder_of_the_archive() {
    for (key, name) in [
        ("a/b.txt", "a/b.txt"),
        ("../../etc/passwd", "_/_/etc/passwd"),
        ("/etc/passwd", "etc/passwd"),
        ("a//b", "a/b"),
        (r"a\..\b", "a/_/b"),
        ("C:/windows", "C_/windows"),
        ("tab\there", "tab_here"),
        ("//", "_"),
    ] {
        assert_eq!(safe_name(key), name, "{key:?}");
    }
}

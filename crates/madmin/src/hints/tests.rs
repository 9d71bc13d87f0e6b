use super::*;

#[test]
fn missing_call_names_the_command_that_helps() {
    let service = not_implemented("service");
    assert_eq!((service.status.as_u16(), &*service.code), (501, "NotImplemented"));
    assert!(service.message.contains("systemctl restart ashlar"), "{service}");
    assert!(not_implemented("heal/photos/x").message.contains("`ashlar fsck`"));
    assert_eq!(
        not_implemented("unheard-of").message,
        "Ashlar has no such call; see `ashlar --help`."
    );
}

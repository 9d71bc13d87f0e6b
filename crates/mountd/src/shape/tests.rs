use record::Ino;

use super::*;

fn stat(kind: NodeKind, mode: u32) -> NodeStat {
    NodeStat {
        ino: Ino(9),
        kind,
        mode,
        uid: 1,
        gid: 2,
        device: 0,
        size: 0,
        blocks: 0,
        links: 1,
        accessed: Timestamp(0),
        modified: Timestamp(0),
        changed: Timestamp(0),
        created: Timestamp(0),
        volatile_attributes: false,
        volatile_name: false,
    }
}

#[test]
fn attributes_are_shown_unchanged_without_options() {
    let shown = ShownAs::default().attributes(&stat(NodeKind::File, 0o4710));
    assert_eq!((shown.uid, shown.gid, shown.mode), (1, 2, 0o104_710));
    let shown = ShownAs { gid: Some(5), ..ShownAs::default() };
    let shown = shown.attributes(&stat(NodeKind::File, 0o600));
    assert_eq!((shown.uid, shown.gid, shown.mode), (1, 5, 0o100_600));
}

#[test]
fn a_umask_grants_all_other_permissions_except_execution() {
    let shown = ShownAs { umask: Some(0o027), ..ShownAs::default() };
    let mode = |kind, mode| shown.attributes(&stat(kind, mode)).mode & PERMISSION_BITS;
    assert_eq!(mode(NodeKind::Directory, 0o1700), 0o750);
    assert_eq!(mode(NodeKind::File, 0o600), 0o640);
    assert_eq!(mode(NodeKind::File, 0o6755), 0o750);
    assert_eq!(mode(NodeKind::Fifo, 0o600), 0o640);
    assert_eq!(mode(NodeKind::Symlink, 0o777), 0o777);
}

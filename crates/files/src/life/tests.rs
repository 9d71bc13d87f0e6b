use super::Life;

const ALL: [Life; 4] = [Life::Linked, Life::Unlinked, Life::DeletedUnseen, Life::Deleted];

#[test]
fn names_and_the_record_are_independent() {
    for life in ALL {
        let (unlinked, named, deleted) = (life.unlinked(), life.named(), life.deleted());
        assert!(unlinked.is_unlinked() && !named.is_unlinked() && deleted.is_deleted(), "{life:?}");
        assert_eq!(unlinked.is_deleted(), life.is_deleted(), "{life:?}");
        assert_eq!(named.is_deleted(), life.is_deleted(), "{life:?}");
        assert_eq!(deleted.is_unlinked(), life.is_unlinked(), "{life:?}");
        assert_eq!(life.is_linked(), !life.is_unlinked() && !life.is_deleted(), "{life:?}");
    }
}

#[test]
fn deleted_file_shows_no_link_even_under_a_name() {
    assert!(ALL.iter().all(|life| !life.deleted().named().is_linked()));
}

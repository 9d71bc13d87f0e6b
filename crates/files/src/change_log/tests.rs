use super::*;

fn there_and_back(change: &AttributeChange) -> AttributeChange {
    attributes_of(&attribute_words(change, Timestamp(-7)))
}

#[test]
fn attribute_changes_survive_encoding_and_decoding() {
    let nothing = AttributeChange::default();
    assert_eq!(there_and_back(&nothing), nothing);
    let all = AttributeChange {
        mode: Some(0o4755),
        uid: Some(u32::MAX),
        gid: Some(0),
        accessed: Some(SetTime::Now),
        modified: Some(SetTime::At(Timestamp(i64::MIN))),
        drop_rights: true,
    };
    assert_eq!(there_and_back(&all), all);
    let other = AttributeChange {
        accessed: Some(SetTime::At(Timestamp(-1))),
        modified: Some(SetTime::Now),
        ..nothing
    };
    assert_eq!(there_and_back(&other), other);
}

#[test]
fn creation_is_open_until_a_later_entry_proves_that_the_file_existed() {
    let changes = |kinds: &[u64]| -> Vec<LoggedChange> {
        let change = |&kind| LoggedChange { kind, request: 2, words: [0; 8], bytes: vec![1] };
        kinds.iter().map(change).collect()
    };
    for open in [&[NAME, CREATED][..], &[NAME, CREATED, WRITE, SET, RECORD]] {
        assert_eq!(created_record(&changes(open)), Some(&[1][..]), "{open:?}");
    }
    let proved =
        [&[][..], &[NAME, WRITE], &[NAME, CREATED, NAME, WRITE], &[NAME, CREATED, WRITE, UNLINKED]];
    for proved in proved {
        assert_eq!(created_record(&changes(proved)), None, "{proved:?}");
    }
}

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

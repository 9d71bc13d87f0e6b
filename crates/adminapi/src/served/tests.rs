use super::RequestNotes;

#[test]
fn a_bucket_is_a_field_of_its_own_and_other_names_are_resources() {
    let notes = RequestNotes::default();
    let view = notes.clone();
    view.note(|served| served.set_resource("bucket", "photos"));
    view.note(|served| served.set_resource("user", "anna"));
    let served = notes.take();
    assert_eq!(served.bucket.as_deref(), Some("photos"));
    assert_eq!(served.resources, [("user", "anna".to_owned())]);
    assert!(notes.take().bucket.is_none(), "the facts are taken once");
}

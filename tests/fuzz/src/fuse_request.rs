//! Requests of the kernel: what decodes lies within its message, and decodes again to the same.

use fuse::{FileOperation, Request};

/// A header's own length is the first four bytes.
const LENGTH_BYTES: usize = 4;

/// A message without its length, which is put before it: a kernel does not lie about that one.
pub(crate) fn check(input: &[u8]) {
    // As it stands, length included.
    let _ = Request::from_message(input);
    let Ok(length) = u32::try_from(input.len() + LENGTH_BYTES) else { return };
    let message = [&length.to_ne_bytes()[..], input].concat();
    let Ok(request) = Request::from_message(&message) else { return };
    let shown = format!("{:?}", request.operation());
    assert_eq!(format!("{:?}", request.operation()), shown, "it decodes to the same");
    assert_eq!(request.unique() & !(1 << 63), request.original_unique());
    assert_eq!(request.unique() >> 63 == 1, request.is_resent());
    match request.operation() {
        FileOperation::Lookup { name } => assert!(is_component(name)),
        FileOperation::Rename { name, new_name, .. } => {
            assert!(is_component(name) && is_component(new_name));
        }
        FileOperation::Forget { nodes } => {
            assert!(nodes.count() <= 1 + message.len() / 16, "no more than there are");
        }
        FileOperation::Write { data, .. } => {
            let data = data.to_vec();
            assert!(data.len() < message.len());
            let taken = request.into_write_data().expect("a write writes");
            assert_eq!(*taken, data[..], "the same bytes without a copy");
            return;
        }
        FileOperation::GetLk(question) | FileOperation::SetLk(question) => {
            assert!(question.lock.start <= question.lock.end);
        }
        _ => {}
    }
    assert!(request.into_write_data().is_none());
}

fn is_component(name: &std::ffi::OsStr) -> bool {
    let name = name.as_encoded_bytes();
    !name.is_empty() && !name.contains(&b'/') && !name.contains(&0)
}

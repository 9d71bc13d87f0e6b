//! Requests of the kernel. All decoded parts are inside the message, and decoding is repeatable.

use fuse::{FileOperation, Request};

/// Length of the length field, the first field of a header, in bytes.
const LENGTH_BYTES: usize = 4;

/// The input: a message without its length, which is added. The kernel always sends a correct
/// length.
pub(crate) fn check(input: &[u8]) {
    // The input as it is, with its own length field, must not panic.
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

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

use super::{Device, HANDOVER_BYTES_MAX};

#[test]
fn a_descriptor_is_handed_over_with_what_comes_along() {
    let (here, there) = UnixStream::pair().unwrap();
    let (mut kept, given) = UnixStream::pair().unwrap();
    Device::new(given.into()).send(&here, b"along").unwrap();
    let (received, along) = Device::receive(&there).unwrap();
    assert_eq!(along, b"along");
    // The descriptor is the very one: what is written to it arrives at the other end.
    received.write(&[std::io::IoSlice::new(b"hello")]).unwrap();
    let mut heard = [0; 5];
    kept.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"hello");
}

#[test]
fn bytes_without_a_descriptor_are_refused() {
    let (mut here, there) = UnixStream::pair().unwrap();
    here.write_all(&[0; 8]).unwrap();
    let refused = Device::receive(&there).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::InvalidData);
    drop(here);
    let ended = Device::receive(&there).unwrap_err();
    assert_eq!(ended.kind(), std::io::ErrorKind::UnexpectedEof);
}

#[test]
fn too_much_is_not_handed_over() {
    let (here, _there) = UnixStream::pair().unwrap();
    let (_kept, given) = UnixStream::pair().unwrap();
    let bytes = vec![0; HANDOVER_BYTES_MAX + 1];
    let refused = Device::new(given.into()).send(&here, &bytes).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::InvalidInput);
}

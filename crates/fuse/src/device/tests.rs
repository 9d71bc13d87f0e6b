use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

use super::{Device, HANDOVER_BYTES_MAX};

#[test]
fn descriptor_is_handed_over_with_its_bytes() {
    let (here, there) = UnixStream::pair().unwrap();
    let (mut kept, given) = UnixStream::pair().unwrap();
    Device::new(given.into()).send(&here, b"along").unwrap();
    let (received, along) = Device::receive(&there).unwrap();
    assert_eq!(along, b"along");
    // The received descriptor is the same one: bytes written to it arrive at the other end.
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
fn oversized_handover_is_refused() {
    let (here, _there) = UnixStream::pair().unwrap();
    let (_kept, given) = UnixStream::pair().unwrap();
    let bytes = vec![0; HANDOVER_BYTES_MAX + 1];
    let refused = Device::new(given.into()).send(&here, &bytes).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::InvalidInput);
}

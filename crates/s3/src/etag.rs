//! The entity tag of multipart objects.

use crate::checksum::Md5;

/// The digest in the ETag of a multipart object: MD5 of the parts' MD5s, one after the other.
///
/// A `-` and the number of parts follow it on the wire, so nobody takes it for the object's MD5.
pub fn multipart_digest(parts: &[[u8; 16]]) -> [u8; 16] {
    let mut md5 = Md5::new();
    for part in parts {
        md5.update(part);
    }
    md5.finish()
}

#[cfg(test)]
mod tests {
    use super::multipart_digest;

    #[test]
    fn s3_u18_multipart_etag_is_md5_of_md5s() {
        let parts = [b"a", b"b"].map(|content| {
            let mut md5 = crate::checksum::Md5::new();
            md5.update(content);
            md5.finish()
        });
        assert_eq!(hex::encode(parts[0]), "0cc175b9c0f1b6a831c399e269772661");
        // printf a | md5sum, printf b | md5sum, joined, through xxd -r -p | md5sum
        assert_eq!(hex::encode(multipart_digest(&parts)), "96e024ba2074fe77e8e965ba43a704be");
        assert_eq!(hex::encode(multipart_digest(&[])), "d41d8cd98f00b204e9800998ecf8427e");
    }
}

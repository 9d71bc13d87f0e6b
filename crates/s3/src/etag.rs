//! The ETag of multipart objects.

use crate::checksum::Md5;

/// Returns the digest in the ETag of a multipart object: the MD5 of the concatenated MD5s of its
/// parts.
///
/// On the wire a `-` and the number of parts follow it, so clients do not mistake it for the MD5 of
/// the object.
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

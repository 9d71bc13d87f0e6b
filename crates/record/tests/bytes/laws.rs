//! Decoding reverses encoding, and refuses damaged, misplaced and newer records.

use std::fmt::Debug;

use proptest::prelude::*;
use record::{
    Account, AccountId, BoundVersion, BucketConfig, BucketConfigKind, CanonicalId, DecodeError,
    Dentry, FileLocks, Group, HeartbeatRecord, HeldLock, Ino, Inode, InodeBody, JobKind, JobRecord,
    JobState, KeyFingerprint, LastUse, LockKeeping, LockPlace, MapPage, Nonce, NullVersion, Part,
    PartSums, PartTag, PolicyRecord, RangeLock, RangeLockKind, RewrapRecord, RingKeyRecord,
    RingKeyState, RingNumber, RingState, RingWrapping, Sequence, SessionFacts, SessionKind,
    SessionRecord, Slice, SlotRecord, SocketSecret, Superseded, Symlink, Timestamp, User, UserKind,
    VersionStamp, VolumeRecord, Written, XattrValue, key,
};
use store::{Key, Value};

use crate::generators::{
    acl, any_key, bucket, dentry, inode, instant, orphan, pairs, slices, sums, text, upload,
    version,
};
use crate::kinds::{Record, body, sealed, verdicts};
use crate::samples;

/// Encodes, decodes, and encodes again.
#[track_caller]
fn round_trips<R: Record>(key: &Key, record: &R) {
    let value = record.bytes(key);
    let again = R::from_bytes(key, &value).expect("what was encoded decodes");
    assert_eq!(again, *record);
    assert_eq!(again.bytes(key), value, "one record has one form");
}

proptest! {
    #[test]
    fn inodes_round_trip(key in any_key(), record in inode()) {
        round_trips(&key, &record);
    }

    #[test]
    fn uploads_round_trip(key in any_key(), record in upload()) {
        round_trips(&key, &record);
    }

    #[test]
    fn parts_and_pages_round_trip(
        key in any_key(), numbers in any::<(u64, u64, [u8; 16], bool, bool)>(), arrived in instant(),
        sums in sums(), slices in slices(),
    ) {
        let (owner, size, tag, shared, opaque) = numbers;
        let tag = if opaque { PartTag::Opaque(tag) } else { PartTag::Md5(tag) };
        round_trips(&key, &MapPage(slices.clone()));
        round_trips(&key, &PartSums { sums: sums.clone() });
        round_trips(&key, &Part { owner: Ino(owner), size, arrived, tag, sums, shared, slices });
    }

    #[test]
    fn names_and_orphans_round_trip(
        key in any_key(), dentry in dentry(), version in version(), orphan in orphan(),
    ) {
        round_trips(&key, &dentry);
        round_trips(&key, &version);
        let id = VersionStamp::new(version.since, 7);
        round_trips(&key, &NullVersion(id));
        let versions = vec![BoundVersion { object: b"a/b".to_vec(), id }; 1 + usize::from(version.is_null)];
        round_trips(&key, &Superseded { versions });
        round_trips(&key, &orphan);
    }

    #[test]
    fn small_records_round_trip(
        key in any_key(), a in any::<u64>(), b in any::<u64>(), flags in any::<(bool, bool)>(),
        ids in any::<([u8; 16], u32, u32)>(), at in instant(), one in text(), tags in pairs(),
        policies in prop::collection::vec(text(), 0..4),
        sealed_secret in prop::collection::vec(any::<u8>(), 0..60), bucket in bucket(),
        acl in acl(),
    ) {
        let (id, uid, gid) = ids;
        let (first, second) = flags;
        let volume = VolumeRecord {
            id,
            made: at,
            format: uid,
            generation: a,
            block_bytes: gid,
            place: first.then_some(id),
        };
        round_trips(&key, &volume);
        round_trips(&key, &Sequence(a));
        round_trips(&key, &bucket);
        let config = BucketConfig::of_acl(&acl);
        round_trips(&key, &config);
        prop_assert_eq!(config.acl(), Ok(acl));
        let canonical_id = CanonicalId([uid.to_le_bytes()[0]; 32]);
        prop_assert_eq!(canonical_id.to_string().parse(), Ok(canonical_id));
        round_trips(&key, &Account { name: one.clone(), canonical_id });
        let config = BucketConfig::of_tags(&tags);
        round_trips(&key, &config);
        prop_assert_eq!(config.tags(), Ok(tags.clone()));
        round_trips(&key, &BucketConfig { bytes: sealed_secret.clone().into() });
        let facts = SessionFacts {
            kind: SessionKind::ALL[usize::from(uid.to_le_bytes()[0]) % SessionKind::ALL.len()],
            version: one.clone(),
            addresses: policies.clone(),
            folder: one.clone(),
            subdirectory: one.clone(),
        };
        let reach = vec![one.clone(), String::new()];
        let (place, socket_secret) = (one.clone(), SocketSecret([uid.to_le_bytes()[0]; 16]));
        round_trips(&key, &SessionRecord { began: at, place, reach, socket_secret, facts });
        let job = JobRecord {
            kind: JobKind::ALL[usize::from(uid.to_le_bytes()[0]) % JobKind::ALL.len()],
            arguments: tags.clone(),
            user: one.clone(),
            session: Nonce([uid.to_le_bytes()[0]; 10]),
            place: one.clone(),
            began: at,
            changed: at,
            state: JobState::ALL[usize::from(gid.to_le_bytes()[0]) % JobState::ALL.len()],
            progress: tags.iter().map(|(name, _)| (name.clone(), a)).collect(),
            message: one.clone(),
            lines: policies.clone(),
            has_more_lines: second,
        };
        round_trips(&key, &job);
        let wrapping = if second {
            RingWrapping::Kms(one.clone())
        } else {
            RingWrapping::Master(KeyFingerprint(a.to_be_bytes()))
        };
        let wrapped = sealed_secret.clone();
        let state = if first { RingKeyState::Closed } else { RingKeyState::Usable };
        round_trips(&key, &RingKeyRecord { made: at, wrapping, wrapped, state });
        let volume_key = Some(RingNumber(uid.min(gid))).filter(|number| number.0 != 0);
        let state = RingState { highest: uid.max(gid), volume_key, everything: first, rewraps: uid };
        round_trips(&key, &state);
        let (from, to) = (KeyFingerprint(a.to_be_bytes()), KeyFingerprint(b.to_be_bytes()));
        round_trips(&key, &RewrapRecord { began: at, from, to, done: a });
        round_trips(&key, &HeartbeatRecord { count: a, passed: b, reads: one.clone() });
        round_trips(&key, &record::Hold { since: at, scope: record::HoldScope::File });
        let (session, by) = (Nonce([uid.to_le_bytes()[0]; 10]), Nonce([1; 10]));
        let kind = if second { RangeLockKind::Shared } else { RangeLockKind::Exclusive };
        let lock = RangeLock { start: a, last: b, kind, owner: b, pid: gid, flock: first };
        let written = Written { by, count: a };
        round_trips(&key, &FileLocks { written, held: vec![HeldLock { session, lock }; 3] });
        let place = LockPlace::Records { sharers: vec![session, by] };
        round_trips(&key, &LockKeeping { written, place });
        let place = LockPlace::Memory { granter: session, asked: vec![by] };
        round_trips(&key, &LockKeeping { written, place });
        round_trips(&key, &SlotRecord { count: a, aborted: first });
        round_trips(&key, &record::Mark);
        let account = AccountId(a % AccountId::END);
        let group = Group { enabled: second, members: policies.clone(), policies: vec![one.clone()] };
        round_trips(&key, &group);
        round_trips(&key, &LastUse { at });
        let kind = if second { UserKind::Key } else { UserKind::Token { actions: policies.clone() } };
        let user = User {
            enabled: second, uid, gid, umask: uid ^ gid, kind, made: at,
            keys: policies.clone(), groups: vec![one.clone()], description: one.clone(), policies,
            parent: first.then(|| one.clone()), expires: second.then_some(at),
            ..User::new(account, sealed_secret)
        };
        round_trips(&key, &user);
        round_trips(&key, &XattrValue(one.clone().into()));
        round_trips(&key, &PolicyRecord(one));
    }

    /// With a valid checksum, random bytes reach the decoders of fields.
    #[test]
    fn random_bytes_never_panic_a_decoder(
        key in any_key(), bytes in prop::collection::vec(any::<u8>(), 0..120), format in 0_u8..3,
    ) {
        let mut body = bytes.clone();
        body.insert(0, format);
        let verdicts_of_noise = verdicts(&key, &bytes.into());
        prop_assert!(verdicts_of_noise.iter().all(|(_, e)| *e == Some(DecodeError::Checksum)));
        for (name, error) in verdicts(&key, &sealed(&key, &body)) {
            let refused = matches!(error, Some(DecodeError::Format(f)) if f == format);
            // The head of an inode has a checksum of its own, which random bytes do not match.
            let head = name == "Inode" && error == Some(DecodeError::Checksum);
            prop_assert!(format == 1 || refused || head, "{} said {:?}", name, error);
        }
    }

    /// Bytes that are almost a record, with a valid checksum, decode or are refused, without a
    /// panic.
    #[test]
    fn sealed_random_bytes_never_panic_a_decoder(
        index in any::<prop::sample::Index>(), at in any::<prop::sample::Index>(),
        byte in any::<u8>(), insert in any::<bool>(),
    ) {
        let samples = samples::all();
        let sample = index.get(&samples);
        let mut body = body(&sample.value).to_vec();
        let at = at.index(body.len());
        if insert { body.insert(at, byte) } else { body[at] = byte }
        verdicts(&sample.key, &sealed(&sample.key, &body));
    }
}

fn refused<T: Debug>(result: &Result<T, DecodeError>) -> DecodeError {
    *result.as_ref().expect_err("damaged bytes are refused")
}

#[test]
fn samples_round_trip() {
    for sample in samples::all() {
        assert_eq!(
            (sample.decode)(&sample.key, &sample.value),
            Ok(sample.fields),
            "{}",
            sample.name
        );
    }
}

#[test]
fn a_flipped_bit_is_refused() {
    for sample in samples::all() {
        for bit in 0..sample.value.len() * 8 {
            let mut bytes = sample.value.to_vec();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let found = (sample.decode)(&sample.key, &Value::from(bytes));
            assert_eq!(refused(&found), DecodeError::Checksum, "{} bit {bit}", sample.name);
        }
    }
}

#[test]
fn truncated_or_extended_record_is_refused() {
    for sample in samples::all() {
        for length in 0..sample.value.len() {
            let found = (sample.decode)(&sample.key, &sample.value.slice(..length));
            assert_eq!(refused(&found), DecodeError::Checksum, "{} cut {length}", sample.name);
        }
        for tail in [&[0_u8][..], &[0; 4], &sample.value] {
            let longer = Value::from([&sample.value[..], tail].concat());
            assert_eq!(refused(&(sample.decode)(&sample.key, &longer)), DecodeError::Checksum);
        }
    }
}

/// The checksum of a truncated body is valid, so the fields must find the truncation.
#[test]
fn truncated_record_with_a_valid_checksum_is_refused() {
    for sample in samples::all() {
        let whole = body(&sample.value);
        for length in 1..whole.len() {
            let found = (sample.decode)(&sample.key, &sealed(&sample.key, &whole[..length]));
            // A list or section without a count may be cut behind one of its items, and decodes as
            // a shorter one.
            assert!(found != Ok(sample.fields.clone()), "{} cut {length}", sample.name);
        }
        let longer = sealed(&sample.key, &[whole, &[0]].concat());
        refused(&(sample.decode)(&sample.key, &longer));
    }
}

#[test]
fn record_under_a_wrong_key_is_refused() {
    let samples = samples::all();
    for sample in &samples {
        for other in &samples {
            if other.key != sample.key {
                let found = (sample.decode)(&other.key, &sample.value);
                assert_eq!(refused(&found), DecodeError::Checksum, "{}", sample.name);
            }
        }
    }
}

#[test]
fn newer_format_is_refused_with_its_number() {
    for sample in samples::all() {
        for format in (0..=u8::MAX).filter(|format| *format != sample.value[0]) {
            let mut newer = body(&sample.value).to_vec();
            newer[0] = format;
            let found = (sample.decode)(&sample.key, &sealed(&sample.key, &newer));
            let error = refused(&found);
            // Inodes have three formats, whose fields differ.
            if sample.name.starts_with("inode-") && (1..=3).contains(&format) {
                assert_ne!(error, DecodeError::Format(format), "{}", sample.name);
            } else {
                assert_eq!(error, DecodeError::Format(format), "{}", sample.name);
            }
        }
    }
}

#[test]
fn unknown_section_is_refused_as_a_newer_format() {
    let named = |name: &str| name.starts_with("inode-file") || name.starts_with("upload");
    let mut tried = 0;
    for sample in samples::all().into_iter().filter(|sample| named(sample.name)) {
        // Uploads have no extended attributes, no pages, and are not renamed. They have locks and
        // encryption.
        let first = if sample.name.starts_with("upload") { 9 } else { 13 };
        for tag in (first..=u8::MAX).filter(|tag| !matches!(tag, 10..=12)) {
            let newer = [body(&sample.value), &[tag, 1, 0]].concat();
            let found = (sample.decode)(&sample.key, &sealed(&sample.key, &newer));
            assert_eq!(refused(&found), DecodeError::Format(tag), "{}", sample.name);
            tried += 1;
        }
    }
    assert_eq!(tried, 3 * 244 + 7 * 243);
}

#[test]
fn sections_other_than_xattrs_are_refused_unless_in_a_file() {
    let named = ["inode-directory", "inode-symlink", "inode-fifo", "inode-device"];
    let is_named = |sample: &samples::Sample| named.contains(&sample.name);
    let mut tried = 0;
    for sample in samples::all().into_iter().filter(is_named) {
        for tag in 1..=u8::MAX {
            let more = [body(&sample.value), &[tag, 4, 1, b'a', 0, 0]].concat();
            let found = Inode::decode(&sample.key, &sealed(&sample.key, &more));
            // The head must have the flag for extended attributes, too.
            let unsaid = DecodeError::Field("extended attributes");
            let expected = if tag == 8 { unsaid } else { DecodeError::Format(tag) };
            assert_eq!(refused(&found), expected, "{}", sample.name);
            tried += 1;
        }
    }
    assert_eq!(tried, 4 * 255);
}

#[test]
fn symlink_with_a_wrong_length_in_its_head_is_refused() {
    let at = key::inode(samples::INO);
    let of = |target: &[u8]| {
        let body = InodeBody::Symlink(Symlink { target: target.to_vec(), links: 1 });
        let attributes = samples::attributes();
        Inode { attributes, bucket: samples::BUCKET, xattrs: Vec::new(), body }.encode(&at)
    };
    let (short, long) = (of(b"abc"), of(b"abcdef"));
    // The head of one link in front of the target of the other.
    let head = body(&long).len() - 7;
    assert_eq!(head, body(&short).len() - 4);
    let mixed = [&body(&long)[..head], &body(&short)[head..]].concat();
    let found = Inode::decode(&at, &sealed(&at, &mixed));
    assert_eq!(refused(&found), DecodeError::Field("target"));
}

#[test]
fn linked_dentry_with_a_self_contained_mark_is_refused() {
    let at = key::dentry(samples::BUCKET, b"x");
    let marked = Dentry { self_contained: Some(5), ..Dentry::file(samples::INO) };
    let found = Dentry::decode(&at, &Dentry { linked: true, ..marked }.encode(&at));
    assert_eq!(refused(&found), DecodeError::Field("kind"));
}

#[test]
fn timestamps_convert_to_microseconds_rounded_down() {
    for (nanoseconds, micros) in [(0, 0), (999, 0), (1_000, 1), (-1, -1), (-1_000, -1)] {
        assert_eq!(Timestamp(nanoseconds).micros(), micros);
    }
    assert_eq!(Timestamp::from_micros(-7), Timestamp(-7_000));
    assert_eq!(Timestamp::from_micros(i64::MAX), Timestamp(i64::MAX));
}

#[test]
fn a_slice_beyond_its_block_or_the_end_of_numbers_is_refused() {
    let key = key::map_page(samples::INO, 0);
    let good = samples::slice(0, 1);
    round_trips(&key, &MapPage(vec![good]));
    for bad in [
        Slice { length: 0, ..good },
        Slice { offset: good.block_length, ..good },
        Slice { offset: u32::MAX, ..good },
        Slice { position: u64::MAX, ..good },
    ] {
        let found = MapPage::decode(&key, &MapPage(vec![bad]).encode(&key));
        assert!(matches!(refused(&found), DecodeError::Field(_)), "{bad:?}");
    }
}

/// A count that is larger than the remaining bytes allows must not allocate memory.
#[test]
fn huge_count_is_refused_without_allocation() {
    let huge = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
    let key = key::map_page(samples::INO, 0);
    let found = MapPage::decode(&key, &sealed(&key, &[&[1][..], &huge].concat()));
    assert!(matches!(refused(&found), DecodeError::Field(_)));
    let too_large = [&[1][..], &huge[..9], &[2]].concat();
    let found = Sequence::decode(&key, &sealed(&key, &too_large));
    assert_eq!(refused(&found), DecodeError::Field("number"));
}

#[test]
fn configuration_kind_is_decoded_from_its_key() {
    for &kind in BucketConfigKind::ALL {
        assert_eq!(BucketConfigKind::of(&key::bucket_config(samples::BUCKET, kind)), Ok(kind));
    }
    let of = |suffix: &[u8]| {
        BucketConfigKind::of(&Key::new(key::space::BUCKET_CONFIG, samples::BUCKET.0, suffix))
    };
    assert_eq!(refused(&of(&[0])), DecodeError::Format(0));
    assert_eq!(refused(&of(&[u8::MAX])), DecodeError::Format(u8::MAX));
    assert_eq!(refused(&of(b"")), DecodeError::Field("kind"));
    assert_eq!(refused(&of(&[1, 0])), DecodeError::Field("kind"));
}

#[test]
fn invalid_tags_are_refused() {
    let config = BucketConfig { bytes: vec![1, b'a', 2, b'b'].into() };
    assert_eq!(refused(&config.tags()), DecodeError::Field("value"));
}

use super::{read, written};

/// Suffixes of a few significant bytes, and long runs.
fn suffixes() -> Vec<Vec<u8>> {
    const BYTES: [u8; 6] = [0, 1, 0x7f, 0x80, 0xfe, 0xff];
    let mut all = vec![Vec::new()];
    let mut last = all.clone();
    for _ in 0..4 {
        last = last
            .iter()
            .flat_map(|suffix| BYTES.map(|byte| [&suffix[..], &[byte]].concat()))
            .collect();
        all.extend(last.iter().cloned());
    }
    for run in [5, 126, 127, 128, 129, 253, 254, 255, 256, 1_099] {
        for before in [&b""[..], b"a", b"\xff"] {
            for after in [&b""[..], b"\x01", b"a\0", b"\xff"] {
                all.push([before, &vec![0; run], after].concat());
                all.push([before, &vec![0xff; run], after].concat());
            }
        }
    }
    all
}

#[test]
fn encoded_suffixes_are_decoded() {
    for suffix in suffixes() {
        for value in [&b""[..], b"\0", b"\0\0\x80", b"\xff", b"value"] {
            let member = [&written(&suffix)[..], value].concat();
            assert_eq!(read(&member), Some((suffix.clone(), value)), "{member:x?}");
        }
    }
}

#[test]
fn members_sort_by_suffix_for_all_values() {
    let mut all = suffixes();
    all.sort();
    all.dedup();
    for pair in all.windows(2) {
        let (one, other) = (written(&pair[0]), written(&pair[1]));
        let last = [&one[..], &[0xff; 9]].concat();
        assert!(last < other, "{pair:x?}: {one:x?} and {other:x?}");
        assert!(!other.starts_with(&one), "{pair:x?}");
    }
}

/// The members after those of one suffix begin where its last byte is one more.
#[test]
fn the_last_byte_of_a_written_suffix_can_be_one_more() {
    for suffix in suffixes() {
        let last = *written(&suffix).last().expect("two bytes at least");
        assert!(last < 0x80, "{suffix:x?}");
    }
}

#[test]
fn a_run_of_zeros_costs_two_bytes() {
    assert_eq!(written(b"name"), b"name\0\0");
    assert_eq!(written(&0x0001_0203_u64.to_be_bytes()), b"\0\xfa\x01\x02\x03\0\0");
    assert_eq!(written(&0x0100_0000_u64.to_be_bytes()), b"\0\xfb\x01\0\x03");
}

#[test]
fn malformed_members_are_refused() {
    for wrong in [&b""[..], b"a", b"\0", b"a\0\xfe", b"a\0\xfeb\0", b"\xff\xff"] {
        assert_eq!(read(wrong), None, "{wrong:x?}");
    }
}

use zerocopy::IntoBytes;

use super::{Answer, KernelOptions, Negotiated, NotNegotiated, decide};
use crate::abi::{InitIn, InitOut, init};

/// The INIT of Linux 6.18.
fn kernel() -> InitIn {
    let (flags, flags2) = (0x73ff_fffb, 0x7fd);
    InitIn { major: 7, minor: 45, max_readahead: 131_072, flags, flags2, unused: [0; 11] }
}

fn agreed(kernel: &InitIn, options: KernelOptions) -> (Negotiated, InitOut) {
    match decide(kernel.as_bytes(), options) {
        Answer::Agree(negotiated, answer) => (negotiated, *answer),
        other => panic!("{other:?}"),
    }
}

#[test]
fn negotiated_flags_are_exactly_the_wanted_ones() {
    let (negotiated, answer) = agreed(&kernel(), KernelOptions::default());
    // Not negotiated: WRITEBACK_CACHE (16), EXPLICIT_INVAL_DATA (25), REQUEST_TIMEOUT (42).
    let expected = [0, 1, 3, 4, 5, 6, 10, 12, 13, 14, 15, 18, 20, 22, 23, 28, 29, 30, 35, 36, 39];
    let expected = expected.iter().fold(0_u64, |flags, bit| flags | 1 << bit);
    assert_eq!(negotiated.flags, expected);
    assert_eq!(u64::from(answer.flags) | u64::from(answer.flags2) << 32, expected);
    assert_eq!((answer.max_write, answer.max_pages), (1 << 20, 256));
    assert_eq!((answer.max_background, answer.congestion_threshold), (128, 96));
    assert_eq!((answer.time_gran, answer.request_timeout), (1, 0));
}

#[test]
fn only_offered_flags_are_negotiated() {
    let old = InitIn { minor: 31, flags: 1 | (1 << 18), flags2: 0xffff, ..kernel() };
    let (negotiated, answer) = agreed(&old, KernelOptions::default());
    assert_eq!(negotiated.flags, init::ASYNC_READ | init::PARALLEL_DIROPS);
    assert_eq!((answer.minor, answer.flags2), (31, 0), "flags2 counts with INIT_EXT only");
}

#[test]
fn short_init_of_an_old_kernel_is_decoded() {
    let whole = kernel();
    let short = &whole.as_bytes()[..16];
    let Answer::Agree(negotiated, _) = decide(short, KernelOptions::default()) else { panic!() };
    assert_eq!(negotiated.flags >> 32, 0);
    assert!(matches!(decide(b"", KernelOptions::default()), Answer::Refuse { .. }));
}

#[test]
fn unsupported_kernel_versions_are_refused() {
    let decided = |major, minor| {
        decide(InitIn { major, minor, ..kernel() }.as_bytes(), KernelOptions::default())
    };
    assert!(matches!(decided(8, 0), Answer::SpeakOlder(answer) if answer.major == 7));
    assert!(matches!(decided(7, 30), Answer::Refuse { major: 7, minor: 30 }));
    assert!(matches!(decided(6, 99), Answer::Refuse { .. }));
    assert!(matches!(decided(7, 99), Answer::Agree(Negotiated { minor: 45, .. }, _)));
}

#[test]
fn options_are_clamped_to_their_limits() {
    let options = KernelOptions {
        readers: 0,
        large_requests_max: 0,
        write_bytes_max: u32::MAX,
        background_max: 1,
        ..KernelOptions::default()
    };
    let within = options.within_limits();
    assert_eq!((within.readers, within.large_requests_max), (2, 3));
    assert_eq!((within.write_bytes_max, within.background_max), (1 << 20, 64));
    assert_eq!(KernelOptions::default().within_limits(), KernelOptions::default());
    let (_, answer) = agreed(&kernel(), KernelOptions { write_bytes_max: 5000, ..options });
    assert_eq!((answer.max_write, answer.max_pages), (4096, 1));
}

#[test]
fn negotiated_options_survive_encoding() {
    let (negotiated, _) = agreed(&kernel(), KernelOptions::default());
    let bytes = negotiated.to_bytes();
    assert_eq!(Negotiated::from_bytes(&bytes), Ok(negotiated));
    let golden = [
        &[1][..],
        &[45, 0, 0, 0],
        &[0, 0, 0x10, 0],
        &[0, 0, 2, 0],
        &[128, 0],
        &[0x7b, 0xf4, 0xd4, 0x70, 0x98, 0, 0, 0],
    ];
    assert_eq!(bytes, golden.concat());
    assert_eq!(Negotiated::from_bytes(&bytes[1..]), Err(NotNegotiated));
    assert_eq!(Negotiated::from_bytes(&[&[2], &bytes[1..]].concat()), Err(NotNegotiated));
    let implausible = Negotiated { write_bytes_max: 0, ..negotiated };
    assert_eq!(Negotiated::from_bytes(&implausible.to_bytes()), Err(NotNegotiated));
}

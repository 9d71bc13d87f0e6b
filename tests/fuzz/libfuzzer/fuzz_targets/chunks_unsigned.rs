//! See `fuzz`'s module of this name.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::check("chunks_unsigned", input));

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| ufutex_fuzz_targets::rows::files(input));

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sqs_once_fuzz::envelope(bytes));

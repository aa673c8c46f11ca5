//! How much memory the largest event takes while it is read.

#![allow(clippy::unwrap_used, reason = "a test")]

use sqs_once::testing::Event;
use sqs_once_bench::contract;

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

/// The most that the event and its messages may take together, as a multiple of the event. Lower it when the
/// peak sinks; 3 is what we promise.
const AT_MOST: f64 = 2.1;

/// One test, because the peak is the process's.
#[test]
fn the_largest_event_is_read_in_little_more_than_twice_its_size() {
    let event = String::from_utf8(contract::event(0..10_000)).unwrap();
    let size = event.len();
    assert!(size > 6_000_000);
    let _profiler = dhat::Profiler::builder().testing().build();
    // Reads the event as the process does, and lets go of the messages.
    drop(Event::from_json(event));
    let messages = dhat::HeapStats::get().max_bytes;
    let peak = (size + messages) as f64 / size as f64;
    assert!(peak <= AT_MOST, "{peak} times the event, at most {AT_MOST}");
}

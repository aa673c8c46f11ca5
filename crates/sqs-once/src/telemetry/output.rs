//! The way of log lines to stdout.
//!
//! Messages of a batch end together, and the lines about them are written together: one system call instead of one for
//! each line. They wait until the task of the batch waits, and no longer.

use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

use super::RECORD;

/// Bytes. Longer text is written at once.
const MOST_WAITING: usize = 16 * 1024;

static LINES: Mutex<Lines> = Mutex::new(Lines(Vec::new()));

/// Lines that have not been written yet, in the order of their events.
struct Lines(Vec<u8>);

impl Lines {
    /// Adds text, and writes all lines unless the text may wait.
    fn add(&mut self, text: &[u8], may_wait: bool, to: impl Write) {
        self.0.extend_from_slice(text);
        if !may_wait || self.0.len() > MOST_WAITING {
            self.write(to);
        }
    }

    fn write(&mut self, mut to: impl Write) {
        if self.0.is_empty() {
            return;
        }
        // An error here can't be reported anywhere.
        let _ = to.write_all(&self.0);
        self.0.clear();
        self.0.shrink_to(MOST_WAITING);
    }
}

fn lines() -> MutexGuard<'static, Lines> {
    // A panic can't leave a line half added.
    LINES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes text behind the lines that wait.
pub(super) fn write(text: &[u8]) {
    lines().add(text, false, io::stdout());
}

/// Writes the lines that wait.
pub(crate) fn flush() {
    lines().write(io::stdout());
}

/// Makes the writers of events.
pub(super) struct Output;

/// Writes the text of one event.
pub(super) struct Line {
    may_wait: bool,
}

impl MakeWriter<'_> for Output {
    type Writer = Line;

    fn make_writer(&self) -> Line {
        Line { may_wait: false }
    }

    /// Only lines about successful messages wait. A line of the handler may be the last before it crashes.
    fn make_writer_for(&self, event: &Metadata<'_>) -> Line {
        Line {
            may_wait: event.target() == RECORD && *event.level() >= Level::INFO,
        }
    }
}

impl Write for Line {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        lines().add(text, self.may_wait, io::stdout());
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};

    use super::{Lines, MOST_WAITING};

    /// The texts of single writes.
    #[derive(Default)]
    struct Written(Vec<String>);

    impl Write for Written {
        fn write(&mut self, text: &[u8]) -> io::Result<usize> {
            self.0.push(String::from_utf8_lossy(text).into_owned());
            Ok(text.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_that_wait_are_written_together_and_before_a_line_that_does_not() {
        let (mut lines, mut written) = (Lines(Vec::new()), Written::default());
        lines.add(b"1\n", true, &mut written);
        lines.add(b"2\n", true, &mut written);
        lines.add(b"3\n", false, &mut written);
        lines.add(b"4\n", true, &mut written);
        lines.write(&mut written);
        lines.write(&mut written);
        assert_eq!(written.0, ["1\n2\n3\n", "4\n"]);
    }

    #[test]
    fn no_more_text_waits_than_a_buffer_holds() {
        let (mut lines, mut written) = (Lines(Vec::new()), Written::default());
        let half = vec![b'x'; MOST_WAITING / 2];
        lines.add(&half, true, &mut written);
        lines.add(&half, true, &mut written);
        assert!(written.0.is_empty());
        lines.add(b"\n", true, &mut written);
        assert_eq!(written.0.concat().len(), MOST_WAITING + 1);
    }
}

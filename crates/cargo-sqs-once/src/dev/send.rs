//! Reads messages from files of events or bodies.

use sqs_once_local::{Event, EventError, NewMessage};
use std::fs;
use std::path::{Path, PathBuf};

/// The longest body that fits into an example.
const LONGEST: usize = 1000;

/// Reads messages from any text that `invoke` accepts as an event. On a FIFO queue, a message without a group joins the
/// group `default`, and a message without a deduplication id uses its message id.
pub(crate) fn messages(text: &str, queue: &str) -> Result<Vec<NewMessage>, EventError> {
    let mut messages = Event::parse(text, queue)?.messages()?;
    for message in &mut messages {
        if queue.ends_with(".fifo") {
            let group = || "default".to_owned();
            message.group_id.get_or_insert_with(group);
            let id = || message.id.clone();
            message.deduplication_id.get_or_insert_with(id);
        } else {
            message.deduplication_id = None;
        }
    }
    Ok(messages)
}

/// The body of the first sample message in a folder that fits on a line, or else `{}`.
pub(crate) fn sample(folder: &Path) -> String {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = files.map(|file| file.path()).collect();
    files.sort();
    let read = |file: PathBuf| messages(&fs::read_to_string(file).ok()?, "").ok();
    let samples = files.into_iter().filter_map(read).flatten();
    let mut bodies = samples.map(|message| message.body);
    let fits = |body: &String| body.len() <= LONGEST && !body.contains(char::is_control);
    bodies.find(fits).unwrap_or_else(|| "{}".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_get_what_their_queue_needs() {
        let sent = messages("{\"order\": 1}\n{\"order\": 2}\n", "q.fifo").unwrap();
        assert_eq!(sent[0].group_id.as_deref(), Some("default"));
        assert_eq!(sent[0].deduplication_id.as_deref(), Some(&*sent[0].id));
        assert_ne!(sent[0].deduplication_id, sent[1].deduplication_id);
        let sent = messages("hello", "q").unwrap();
        assert_eq!((sent[0].body.as_str(), &sent[0].group_id), ("hello", &None));
    }
}

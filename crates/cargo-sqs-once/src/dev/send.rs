//! Reads messages from a file of events or bodies.

use sqs_once_local::{Event, EventError, NewMessage};

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

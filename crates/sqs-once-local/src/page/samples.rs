//! Sample messages for the form that sends a message.

use super::title::{opened, title};
use crate::event::Event;
use serde::Serialize;
use serde_json::{Map, Value};
use std::fs;
use std::path::Path;

#[derive(Serialize)]
pub(super) struct Sample {
    name: String,
    body: String,
    attributes: Map<String, Value>,
    group_id: Option<String>,
    deduplication_id: Option<String>,
}

/// Reads the messages of a folder's files. Leaves out files that contain none.
pub(super) fn read(folder: &Path) -> Vec<Sample> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<_> = files.map(|file| file.path()).collect();
    files.sort();
    files
        .iter()
        .filter_map(|file| of_file(file))
        .flatten()
        .collect()
}

fn of_file(file: &Path) -> Option<Vec<Sample>> {
    let text = fs::read_to_string(file).ok()?;
    // Of an event, only the queue that fills a gap would matter, and a message to send has none.
    let messages = Event::parse(&text, "").ok()?.messages().ok()?;
    let name = file.file_name()?.to_string_lossy();
    let samples = messages.into_iter().enumerate().map(|(index, message)| {
        let number = index + 1;
        let title = title(&opened(&message.body)).map(|title| format!(": {title}"));
        Sample {
            name: format!("{name} {number}{}", title.unwrap_or_default()),
            body: message.body,
            attributes: message.attributes,
            group_id: message.group_id,
            deduplication_id: message.deduplication_id,
        }
    });
    Some(samples.collect())
}

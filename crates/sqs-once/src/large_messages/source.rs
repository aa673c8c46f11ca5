//! The objects that the messages of a queue may name.

use crate::config::LARGE_MESSAGES;
use crate::env::not_set;
use crate::error::ConfigError;

use super::pointer::Pointer;

const EXPECTED: &str = "the ARN of a queue, and objects of a bucket, such as \
     arn:aws:sqs:eu-central-1:123456789012:orders=acme-large-messages/orders/*";

const APART: &str = "a prefix for each queue that contains no other queue's, such as orders/* and refunds/*, or the \
     same prefix for queues whose senders trust each other";

/// S3 takes no longer key.
const MAX_KEY: usize = 1024;

/// The objects under one prefix of a bucket, for the messages of one queue.
#[derive(Debug)]
pub(super) struct Source {
    queue_arn: String,
    bucket: String,
    /// Ends in `/`, or is empty for all objects of the bucket.
    prefix: String,
}

impl Source {
    /// Reads a source from the code.
    pub(super) fn new(queue_arn: &str, objects: &str) -> Result<Self, ConfigError> {
        Self::parse(queue_arn, objects).ok_or_else(|| {
            let problem = format!("has the objects {objects:?} for the queue {queue_arn:?}");
            ConfigError::invalid("the setting `large_messages`", problem, EXPECTED)
        })
    }

    /// Reads the sources of the variable: `ARN=BUCKET/PREFIX/*`, with commas or white space in between.
    pub(super) fn list(text: Option<&str>) -> Result<Vec<Self>, ConfigError> {
        let wrong = |problem| ConfigError::invalid(LARGE_MESSAGES, problem, EXPECTED);
        let text = text.ok_or_else(|| wrong(not_set(LARGE_MESSAGES)))?;
        let entries = text.split(|c: char| c == ',' || c.is_whitespace());
        let entries = entries.filter(|entry| !entry.is_empty()).map(|entry| {
            let source = entry.split_once('=');
            let source = source.and_then(|(queue, objects)| Self::parse(queue, objects));
            source.ok_or_else(|| wrong(format!("has the entry {entry:?}")))
        });
        entries.collect()
    }

    fn parse(queue_arn: &str, objects: &str) -> Option<Self> {
        let parts: Vec<_> = queue_arn.split(':').collect();
        let ["arn", _, "sqs", region, account, queue] = parts[..] else {
            return None;
        };
        // The ARN of an access point contains `/`.
        let name_at = match objects.starts_with("arn:") {
            true => objects.find("accesspoint/")? + "accesspoint/".len(),
            false => 0,
        };
        let name_end = name_at + objects[name_at..].find('/')?;
        let (bucket, prefix) = (
            &objects[..name_end],
            objects[name_end + 1..].strip_suffix('*')?,
        );
        let is_bucket = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:/".contains(&byte);
        let is_prefix = |c: char| !c.is_whitespace() && !c.is_control() && !"*?,".contains(c);
        let fits = [region, account, queue].iter().all(|part| !part.is_empty())
            && name_end - name_at >= 3
            && bucket.bytes().all(is_bucket)
            && prefix.chars().all(is_prefix)
            && (prefix.is_empty() || prefix.ends_with('/'))
            && !has_dots(prefix);
        fits.then(|| Self {
            queue_arn: queue_arn.to_owned(),
            bucket: bucket.to_owned(),
            prefix: prefix.to_owned(),
        })
    }

    /// Refuses sources of two queues of which one contains the other: who may send to the first queue could read the bodies
    /// of the second. Queues with the same objects share them.
    pub(super) fn keep_apart(sources: &[Self], setting: &'static str) -> Result<(), ConfigError> {
        let outer = sources
            .iter()
            .flat_map(|one| sources.iter().map(move |it| (one, it)));
        let mut overlaps = outer.filter(|(outer, inner)| {
            outer.queue_arn != inner.queue_arn
                && outer.bucket == inner.bucket
                && outer.prefix != inner.prefix
                && inner.prefix.starts_with(&outer.prefix)
        });
        let Some((outer, inner)) = overlaps.next() else {
            return Ok(());
        };
        let problem = format!(
            "has the objects {:?} for the queue {:?}, which contain {:?} of the queue {:?}: whoever may send to the first \
             queue could read the bodies of the second",
            outer.objects(),
            outer.queue_arn,
            inner.objects(),
            inner.queue_arn
        );
        Err(ConfigError::invalid(setting, problem, APART))
    }

    pub(super) fn is_of(&self, queue_arn: &str) -> bool {
        self.queue_arn == queue_arn
    }

    /// Returns whether the pointer names one of the objects.
    pub(super) fn contains(&self, Pointer { bucket, key }: &Pointer) -> bool {
        let name = key.strip_prefix(&self.prefix);
        *bucket == self.bucket
            && name.is_some_and(|name| !name.is_empty())
            && key.len() <= MAX_KEY
            && !has_dots(key)
    }

    pub(super) fn objects(&self) -> String {
        format!("{}/{}*", self.bucket, self.prefix)
    }
}

/// Returns whether a part of the key is `.` or `..`. For S3 these are names, but a proxy may resolve them.
fn has_dots(key: &str) -> bool {
    key.split('/').any(|part| part == "." || part == "..")
}

//! Detects changes of source files.
//!
//! rustc writes the list of a binary's source files next to the binary. Comparing the files' times works with every
//! editor and file system, without change notifications.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Files with their modification time and length at the last check.
pub(crate) struct Watch(BTreeMap<PathBuf, State>);

type State = Option<(SystemTime, u64)>;

impl Watch {
    /// Watches files. A file that was written after `since` counts as changed.
    pub(crate) fn new(files: impl IntoIterator<Item = PathBuf>, since: SystemTime) -> Self {
        let mut watch = Self(BTreeMap::new());
        watch.add(files, since);
        watch
    }

    /// Adds the sources of the binary at `executable`, whose build began at `since`.
    pub(crate) fn add_sources(&mut self, executable: &Path, since: SystemTime) {
        let list = executable.with_extension("d");
        // Without the list, the other files are still watched.
        let list = std::fs::read_to_string(list).unwrap_or_default();
        self.add(sources(&list), since);
    }

    fn add(&mut self, files: impl IntoIterator<Item = PathBuf>, since: SystemTime) {
        for file in files {
            let state = state(&file).filter(|(written, _)| *written <= since);
            self.0.entry(file).or_insert(state);
        }
    }

    /// Whether a file has changed since the last check.
    pub(crate) fn look(&mut self) -> bool {
        let mut has_changed = false;
        for (file, seen) in &mut self.0 {
            let now = state(file);
            has_changed |= now != *seen;
            *seen = now;
        }
        has_changed
    }
}

fn state(file: &Path) -> State {
    let metadata = std::fs::metadata(file).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

/// Parses the files on the right of a line such as `target: a.rs with\ a\ space.rs`.
fn sources(list: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in list.lines() {
        let Some((_, line)) = line.split_once(": ") else {
            continue;
        };
        let mut file = String::new();
        let mut chars = line.chars().peekable();
        while let Some(char) = chars.next() {
            match char {
                '\\' if chars.peek() == Some(&' ') => file.extend(chars.next()),
                ' ' => files.push(std::mem::take(&mut file)),
                char => file.push(char),
            }
        }
        files.push(file);
    }
    files.retain(|file| !file.is_empty());
    files.into_iter().map(PathBuf::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_list_is_watched() {
        let list =
            "/t/debug/pay: /p/src/main.rs /p/my\\ code/lib.rs C:\\p\\main.rs\n\n/t/debug/none:\n";
        let expected = ["/p/src/main.rs", "/p/my code/lib.rs", "C:\\p\\main.rs"];
        assert_eq!(sources(list), expected.map(PathBuf::from));
    }

    #[test]
    fn a_change_is_noticed_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let source = path("main.rs");
        std::fs::write(path("pay.d"), format!("pay: {}\n", source.display())).unwrap();
        std::fs::write(&source, "fn main() {}").unwrap();
        let mut watch = Watch::new([path("Cargo.toml")], SystemTime::now());
        watch.add_sources(&path("pay"), SystemTime::now());
        assert!(!watch.look());
        std::fs::write(&source, "fn main() { }").unwrap();
        assert_eq!((watch.look(), watch.look()), (true, false));
        std::fs::write(path("Cargo.toml"), "").unwrap();
        assert!(watch.look(), "a file that was not there before");
        let before = SystemTime::UNIX_EPOCH;
        let mut during_the_build = Watch::new([source.clone()], before);
        assert!(during_the_build.look(), "a file that was written since");
        std::fs::remove_file(&source).unwrap();
        assert!(watch.look(), "a file that is there no more");
    }
}

//! The segments of a folder as a reader beside a live writer finds them.
//!
//! While a compaction puts a segment in the place of others (see [`swap`](super::cleaner)) neither the old names nor the new ones are all there.
//! The rule is that of the opening which finishes an interrupted swap: from when the new segment's `.log` is a `.swap`, it counts, and those that
//! it covers do not, whether they are still there or not. One that has a `.cleaned` at or before it is part of a split that may yet be undone.
//!
//! Names change while they are listed and opened. So what was opened counts only if a second listing says what the first one did, and the files
//! are held open from then on.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use super::error::{Context, LogError, Result};
use super::home::now_ms;
use super::names::{Kind, Suffix, parse_file_name};
use super::opening::Opening;
use super::scan::next_offset;
use super::segment::Segment;

/// A writer that renames files faster than they are listed so often does not exist.
const TRIES: usize = 100;

/// The names that say what the segments are.
type Names = BTreeSet<(i64, Kind, Suffix)>;

impl Opening<'_> {
    /// The segments in order, and whether one may have aborted transactions.
    pub(super) fn list_to_read(&self) -> Result<(Vec<Arc<Segment>>, bool)> {
        let mut tries = 0;
        loop {
            let files = self.files()?;
            let opened = self.open_files(&files);
            tries += 1;
            match opened {
                Err(LogError::Io { source, .. })
                    if source.kind() == io::ErrorKind::NotFound && tries < TRIES => {}
                Err(error) => return Err(error),
                Ok(opened) if tries == TRIES || self.files()? == files => return Ok(opened),
                Ok(_) => {}
            }
        }
    }

    fn files(&self) -> Result<Names> {
        let path = self.folder.path();
        let entries = self.folder.storage.list(&path).context("list", &path)?;
        Ok(entries
            .iter()
            .filter_map(|entry| parse_file_name(&entry.name))
            .filter(|(_, kind, suffix)| {
                matches!(kind, Kind::Log | Kind::TransactionIndex) && *suffix != Suffix::Deleted
            })
            .collect())
    }

    fn open_files(&self, files: &Names) -> Result<(Vec<Arc<Segment>>, bool)> {
        let first_cleaned = files
            .iter()
            .find(|(_, _, suffix)| *suffix == Suffix::Cleaned)
            .map(|(base_offset, ..)| *base_offset);
        let mut suffixes = BTreeMap::new();
        for (base_offset, kind, suffix) in files {
            if *kind == Kind::Log && *suffix == Suffix::None {
                suffixes.insert(*base_offset, Suffix::None);
            }
        }
        for (base_offset, kind, suffix) in files {
            let is_swap = *kind == Kind::Log && *suffix == Suffix::Swap;
            if is_swap && first_cleaned.is_none_or(|first| *base_offset < first) {
                let path = self.folder.file(*base_offset, Kind::Log, Suffix::Swap);
                let next = next_offset(&*self.folder.storage, &path)?;
                let end = next.unwrap_or(0).max(base_offset + 1);
                suffixes.retain(|old, _| !(*base_offset..end).contains(old));
                suffixes.insert(*base_offset, Suffix::Swap);
            }
        }
        let now_ms = now_ms();
        let (folder, cache) = (&self.folder, &self.home.cache);
        let mut segments = Vec::with_capacity(suffixes.len());
        for (base_offset, suffix) in suffixes {
            let swapped = (base_offset, Kind::TransactionIndex, Suffix::Swap);
            let transactions = if suffix == Suffix::Swap && files.contains(&swapped) {
                Suffix::Swap
            } else {
                Suffix::None
            };
            let opened =
                Segment::open_to_read(folder, base_offset, suffix, transactions, now_ms, cache);
            let path = || self.folder.file(base_offset, Kind::Log, suffix);
            segments.push(opened.or_else(|error| Err(error).context("open", &path()))?);
        }
        let has_aborted = files
            .iter()
            .any(|(_, kind, suffix)| *kind == Kind::TransactionIndex && *suffix != Suffix::Cleaned);
        Ok((segments, has_aborted))
    }
}

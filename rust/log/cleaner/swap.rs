//! Putting a cleaned segment in the place of those that it was made of; or several in the place of one whose offsets reach too far.
//!
//! | | files | a crash here leaves |
//! |---:|---|---|
//! | 1 | the new segment is complete and durable under `.cleaned` | the old segments; `.cleaned` is removed |
//! | 2 | its files become `.swap`, the `.log` last | before the `.log`: as 1 |
//! | 3 | the old files become `.deleted` | the new segment: the next opening finishes what is left of 3 and 4 |
//! | 4 | the new files lose their suffix, the `.log` last | the same |
//! | 5 | `.deleted` files go after `file.delete.delay.ms` | the next opening removes them |
//!
//! These are Kafka's names and rules, so each of us finishes what the other began. In Kafka's eyes a `.swap` that has a `.cleaned` before it is
//! half of a split and is dropped, so no `.cleaned` of an earlier attempt may lie around at step 2; and of several the first gets its `.swap` last.
//!
//! Readers see the old list or the new. Those that hold an old segment go on in its files, which they open under whatever name they
//! have. The lock that appends need is held only while the list is replaced; renames happen under `layout`, which serialises
//! everything that takes closed segments away.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::log::deletion::reaper;
use crate::log::error::{Context, LogError, Result};
use crate::log::log::Log;
use crate::log::names::{Kind, Suffix, parse_file_name};
use crate::log::segment::Segment;
use crate::log::snapshots::snapshots;

impl Log {
    /// How often the log was truncated: a cleaning that a truncation overtook proves nothing.
    pub(super) fn truncations(&self) -> u64 {
        self.flush.lock().truncations
    }

    /// Removes what an earlier cleaning that failed has left.
    pub(super) fn remove_cleaned(&self) -> Result<()> {
        let path = self.folder.path();
        for entry in self.folder.storage.list(&path).context("list", &path)? {
            if let Some((_, _, Suffix::Cleaned)) = parse_file_name(&entry.name) {
                let path = path.join(entry.name);
                self.folder
                    .storage
                    .remove_file(&path)
                    .context("remove", &path)?;
            }
        }
        Ok(())
    }

    /// Puts `cleaned`, of which the first begins where `old` does, in the place of `old`. Nothing is changed if the log is closed, was truncated since, or lost one of the old segments.
    pub(super) fn swap(
        &self,
        cleaned: &[Arc<Segment>],
        old: &[Arc<Segment>],
        truncations: u64,
    ) -> Result<()> {
        let _layout = self.layout.lock();
        self.check_writable()?;
        if self.truncations() != truncations || self.position_of(old).is_none() {
            return Err(LogError::CleaningStopped("its segments changed"));
        }
        if let Some((first, others)) = cleaned.split_first() {
            if !others.is_empty() {
                self.folder.sync()?;
                for part in others.iter().rev() {
                    part.set_suffix(Suffix::Swap)?;
                }
                // Whatever of this a power cut takes, no part is without one before it that says that it does not count.
                self.folder.sync()?;
            }
            first.set_suffix(Suffix::Swap)?;
        }
        self.folder.sync()?;
        // From here on there is no way back: what fails now is finished at the next opening.
        let result = self.replace(cleaned, old);
        if let Err(error) = &result {
            self.home.fail(error);
        }
        result
    }

    /// Where `old` begins in the list, if all of it is there.
    fn position_of(&self, old: &[Arc<Segment>]) -> Option<usize> {
        let segments = self.segments();
        let first = old.first()?;
        let at = segments
            .iter()
            .position(|segment| Arc::ptr_eq(segment, first))?;
        let there = segments.get(at..at + old.len())?;
        there
            .iter()
            .zip(old)
            .all(|(segment, old)| Arc::ptr_eq(segment, old))
            .then_some(at)
    }

    fn replace(&self, cleaned: &[Arc<Segment>], old: &[Arc<Segment>]) -> Result<()> {
        {
            // Appends may start segments meanwhile.
            let _writer = self.writer.lock();
            let mut segments = Vec::clone(&self.segments());
            let Some(at) = self.position_of(old) else {
                return Err(LogError::CleaningStopped("its segments changed"));
            };
            segments.splice(at..at + old.len(), cleaned.iter().cloned());
            self.segments.store(Arc::new(segments));
            self.recount();
        }
        for segment in old {
            // A later cleaning may give another file the name that this one gets now: who reads it keeps it open.
            let _ = segment.file.pin();
            segment.set_suffix(Suffix::Deleted)?;
        }
        for part in cleaned {
            part.set_suffix(Suffix::None)?;
        }
        self.folder.sync()?;
        self.remove_swapped(old);
        self.remove_snapshots_between(old)
    }

    /// Removes the old files later. By name: holding the segments would hold their descriptors.
    fn remove_swapped(&self, old: &[Arc<Segment>]) {
        let delay_ms = if self.home.background {
            self.config().file_delete_delay_ms
        } else {
            0
        };
        let (home, folder) = (Arc::clone(&self.home), Arc::clone(&self.folder));
        let bases: Vec<i64> = old.iter().map(|segment| segment.base_offset).collect();
        reaper().later(Duration::from_millis(delay_ms), move || {
            for base_offset in bases {
                for kind in Kind::ALL {
                    let path = folder.file(base_offset, kind, Suffix::Deleted);
                    match folder.storage.remove_file(&path) {
                        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                        other => drop(home.guard(other.context("remove", &path))),
                    }
                }
            }
        });
    }

    /// Before the markers up to `offset` go: a snapshot from before them may call their transactions open, and who recovers from it would not find
    /// out. Without it the batches are read from further ahead, which tell of no such transaction.
    pub(super) fn remove_snapshots_to(&self, offset: i64) -> Result<()> {
        let _layout = self.layout.lock();
        let mut removed = false;
        for snapshot in snapshots(&self.folder)? {
            if snapshot <= offset {
                self.remove_snapshot(snapshot)?;
                removed = true;
            }
        }
        if removed { self.folder.sync() } else { Ok(()) }
    }

    /// Segments that are no more need no snapshot to be recovered from.
    fn remove_snapshots_between(&self, old: &[Arc<Segment>]) -> Result<()> {
        let [first, .., last] = old else {
            return Ok(());
        };
        for snapshot in snapshots(&self.folder)? {
            if (first.base_offset + 1..=last.base_offset).contains(&snapshot) {
                self.remove_snapshot(snapshot)?;
            }
        }
        Ok(())
    }

    /// Stops a cleaning that is at work, and returns when it has left the log's files alone. For whoever has set `closed`.
    pub(in crate::log) fn wait_for_cleaning(&self) {
        debug_assert!(self.closed.load(Ordering::Acquire));
        drop(self.cleaning.lock());
    }
}

//! Which old segments go, and how.
//!
//! A segment leaves the list at once (readers that hold it go on), its files get the suffix `.deleted`, and after `file.delete.delay.ms` a
//! thread removes them. A crash in between leaves `.deleted` files, which the next opening removes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::config::LogConfig;
use super::error::Result;
use super::log::Log;
use super::names::Suffix;
use super::segment::Segment;
use crate::io::panics::catching;

/// The state of a log that a policy may look at.
pub struct Candidates<'a> {
    pub segments: &'a [Arc<Segment>],
    pub config: &'a LogConfig,
    pub now_ms: i64,
    pub start_offset: i64,
    /// Bytes of the whole log.
    pub size_bytes: u64,
}

/// Decides how many of the oldest segments may go. The log itself takes care that nothing at or after the high watermark goes, and that
/// one segment stays.
pub trait DeletionPolicy: Send + Sync {
    fn deletable(&self, candidates: &Candidates<'_>) -> Result<usize>;
}

/// `retention.ms`: segments whose youngest record is too old.
pub struct ByAge;
/// `retention.bytes`: segments without which the log is still as large as it should be.
pub struct BySize;
/// Segments that end before the log's start offset.
pub struct BeforeStart;

impl DeletionPolicy for ByAge {
    fn deletable(&self, candidates: &Candidates<'_>) -> Result<usize> {
        let retention_ms = candidates.config.retention_ms;
        let mut count = 0;
        if retention_ms >= 0 {
            for segment in candidates.segments {
                if candidates
                    .now_ms
                    .saturating_sub(segment.largest_timestamp_ms()?)
                    <= retention_ms
                {
                    break;
                }
                count += 1;
            }
        }
        Ok(count)
    }
}

impl DeletionPolicy for BySize {
    fn deletable(&self, candidates: &Candidates<'_>) -> Result<usize> {
        let Ok(retention_bytes) = u64::try_from(candidates.config.retention_bytes) else {
            return Ok(0);
        };
        let mut excess = candidates.size_bytes.saturating_sub(retention_bytes);
        let fits = |segment: &&Arc<Segment>| {
            let size = segment.size_bytes();
            let goes = excess > 0 && size <= excess;
            excess -= if goes { size } else { 0 };
            goes
        };
        Ok(candidates.segments.iter().take_while(fits).count())
    }
}

impl DeletionPolicy for BeforeStart {
    fn deletable(&self, candidates: &Candidates<'_>) -> Result<usize> {
        let next = candidates.segments.iter().skip(1);
        Ok(next
            .take_while(|next| next.base_offset <= candidates.start_offset)
            .count())
    }
}

/// The policies of `cleanup.policy`.
pub fn policies(config: &LogConfig) -> &'static [&'static dyn DeletionPolicy] {
    if config.delete {
        &[&ByAge, &BySize, &BeforeStart]
    } else {
        &[&BeforeStart]
    }
}

impl Log {
    /// Removes what the settings allow to remove; how many segments went.
    pub fn delete_old_segments(&self, now_ms: i64) -> Result<usize> {
        self.delete_segments(now_ms, policies(&self.config()))
    }

    /// Removes what `policies`, one after the other, allow to remove.
    pub fn delete_segments(&self, now_ms: i64, policies: &[&dyn DeletionPolicy]) -> Result<usize> {
        self.check_writable()?;
        let mut total = 0;
        for policy in policies {
            let result = self.delete_by(now_ms, *policy);
            total += self.guard(result)?;
        }
        Ok(total)
    }

    fn delete_by(&self, now: i64, policy: &dyn DeletionPolicy) -> Result<usize> {
        let _layout = self.layout.lock();
        let segments = self.segments();
        let (high_watermark, end) = (self.high_watermark(), self.published());
        // Only what is below the high watermark, and never an empty active segment.
        let ends = segments
            .iter()
            .skip(1)
            .map(|next| next.base_offset)
            .chain([end.end_offset]);
        let is_empty_active =
            |segment: &Segment| segment.base_offset == end.segment && segment.is_empty();
        let below = segments
            .iter()
            .zip(ends)
            .take_while(|(segment, ends)| *ends <= high_watermark && !is_empty_active(segment))
            .count();
        let config = self.config();
        let candidates = Candidates {
            segments: &segments,
            config: &config,
            now_ms: now,
            start_offset: self.start_offset(),
            size_bytes: self.size_bytes(),
        };
        let count = policy.deletable(&candidates)?.min(below);
        if count == 0 {
            return Ok(0);
        }
        let gone = {
            let mut writer = self.writer();
            let current = self.segments();
            if current.len() < count || !Arc::ptr_eq(&current[count - 1], &segments[count - 1]) {
                // Truncated or deleted meanwhile: next time.
                return Ok(0);
            }
            if count == current.len() {
                self.roll_at(&mut writer, self.end_offset(), now)?;
            }
            let current = self.segments();
            self.segments.store(Arc::new(current[count..].to_vec()));
            let start = current[count].base_offset;
            if start > self.start_offset() {
                self.move_start(&mut writer, start)?;
            }
            self.recount();
            current[..count].to_vec()
        };
        self.remove_later(&gone)?;
        Ok(gone.len())
    }

    /// Marks the files of segments that left the list, and removes them later.
    pub(super) fn remove_later(&self, segments: &[Arc<Segment>]) -> Result<()> {
        for segment in segments {
            segment.set_suffix(Suffix::Deleted)?;
        }
        self.reap(segments)
    }

    /// The same from the end on, each durable before the next goes: a crash leaves no segment behind one that is gone. A compacted log may have
    /// gaps, so that nobody would miss what was between.
    pub(super) fn remove_from_end(&self, segments: &[Arc<Segment>]) -> Result<()> {
        for segment in segments.iter().rev() {
            segment.set_suffix(Suffix::Deleted)?;
            self.folder.sync()?;
        }
        self.reap(segments)
    }

    fn reap(&self, segments: &[Arc<Segment>]) -> Result<()> {
        if segments.is_empty() {
            return Ok(());
        }
        if !self.home.background {
            return segments
                .iter()
                .try_for_each(|segment| segment.remove(Suffix::Deleted));
        }
        let segments = segments.to_vec();
        let delay = Duration::from_millis(self.config().file_delete_delay_ms);
        let home = Arc::clone(&self.home);
        reaper().later(delay, move || {
            for segment in &segments {
                let _ = home.guard(segment.remove(Suffix::Deleted));
            }
        });
        Ok(())
    }

    /// Removes the partition: its folder is renamed at once (`orders-0.<unique>-delete`, as Kafka names it), its files go after
    /// `file.delete.delay.ms`. The log is closed.
    pub fn delete(&self, unique_id: u128) -> Result<()> {
        // A log that is out of use goes as well.
        if !self.is_broken() {
            self.check_writable()?;
        }
        // Nothing of it is finished: a full disk must not keep it from giving its room back.
        self.leaving.store(true, Ordering::Release);
        self.close(false)?;
        let from = self.folder.path();
        let to = from.with_file_name(self.partition.deleted_folder_name(unique_id));
        use super::error::Context;
        self.home
            .guard(self.folder.rename(&to).context("rename", &from))?;
        let delay = Duration::from_millis(self.config().file_delete_delay_ms);
        let (home, folder) = (Arc::clone(&self.home), Arc::clone(&self.folder));
        reaper().later(delay, move || {
            let _ = remove_folder(&*home.storage, &folder.path());
        });
        Ok(())
    }
}

/// Removes a folder with everything in it, up to the first thing that cannot be removed.
pub fn remove_folder(
    storage: &dyn crate::storage::Storage,
    path: &std::path::Path,
) -> std::io::Result<()> {
    for entry in storage.list(path)? {
        let inner = path.join(entry.name);
        if entry.is_directory {
            remove_folder(storage, &inner)?;
        } else {
            storage.remove_file(&inner)?;
        }
    }
    storage.remove_directory(path)
}

/// Jobs for later, on one thread that is started with the first. What is left when the process ends is done at the next opening.
pub struct Reaper {
    state: Mutex<ReaperState>,
    wake: Condvar,
}

#[derive(Default)]
struct ReaperState {
    jobs: BinaryHeap<Reverse<Job>>,
    number: u64,
    started: bool,
}

struct Job {
    at: Instant,
    number: u64,
    run: Box<dyn FnOnce() + Send>,
}

impl PartialEq for Job {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Job {}

impl PartialOrd for Job {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Job {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

pub fn reaper() -> &'static Reaper {
    static REAPER: OnceLock<Reaper> = OnceLock::new();
    REAPER.get_or_init(|| Reaper {
        state: Mutex::default(),
        wake: Condvar::new(),
    })
}

impl Reaper {
    pub fn later(&'static self, delay: Duration, run: impl FnOnce() + Send + 'static) {
        if delay.is_zero() {
            return run();
        }
        let mut state = self.state.lock();
        let number = state.number;
        state.number += 1;
        state.jobs.push(Reverse(Job {
            at: Instant::now() + delay,
            number,
            run: Box::new(run),
        }));
        if !state.started {
            let thread = std::thread::Builder::new().name("ottla-reaper".to_owned());
            // Without a thread the files stay until the next opening.
            state.started = thread.spawn(|| self.run()).is_ok();
        }
        self.wake.notify_one();
    }

    fn run(&self) {
        let mut state = self.state.lock();
        loop {
            match state.jobs.peek() {
                None => self.wake.wait(&mut state),
                Some(Reverse(next)) if next.at > Instant::now() => {
                    let at = next.at;
                    self.wake.wait_until(&mut state, at);
                }
                Some(_) => {
                    let Some(Reverse(job)) = state.jobs.pop() else {
                        continue;
                    };
                    drop(state);
                    let _ = catching(job.run);
                    state = self.state.lock();
                }
            }
        }
    }
}

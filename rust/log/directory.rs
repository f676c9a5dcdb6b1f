//! A data directory: many logs, one lock, the checkpoints.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;

use super::checkpoint::{
    self, CLEAN_SHUTDOWN, CLEANED_OFFSETS, HIGH_WATERMARKS, Offsets, RECOVERY_POINTS, START_OFFSETS,
};
use super::cleaner::{CleanReport, Cleanable, Cleaner};
use super::config::LogConfig;
use super::deletion::remove_folder;
use super::error::{Context, LogError, Result};
use super::home::Home;
use super::lock::DirectoryLock;
use super::log::{Log, OpenMode};
use super::names::{DELETED_FOLDER, TopicPartition};
use super::opening::Hints;
use crate::io::panics::{catching, outcome};
use crate::storage::Mode;

/// From so many unflushed logs on, a clean stop makes the file system durable and not file after file: five files and a folder for each of 5,000 logs took
/// 2.5 s on a disk that does all at once in 0.25. With fewer it would wait for the file system's other users without need.
pub(super) const AT_ONCE: usize = 1000;

/// An open data directory. One per directory and process: its lock says so.
pub struct LogDirectory {
    home: Arc<Home>,
    lock: Mutex<Option<DirectoryLock>>,
    state: Mutex<State>,
    /// Held while a checkpoint file is written: two at once would take each other's temporary file, and the older might come last.
    writing: Mutex<()>,
    was_clean: bool,
    stop: Arc<AtomicBool>,
    checkpointer: Mutex<Option<JoinHandle<()>>>,
}

struct State {
    logs: BTreeMap<TopicPartition, Arc<Log>>,
    /// Closed cleanly since the directory was opened.
    closed: HashSet<TopicPartition>,
    /// The offsets that the checkpoint files have for partitions that are not open: kept when the
    /// files are written.
    high_watermarks: Offsets,
    recovery_points: Offsets,
    start_offsets: Offsets,
    cleaned_offsets: Offsets,
}

/// The folders of a data directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    pub partitions: Vec<TopicPartition>,
    /// Copies of partitions that move here (`...-future`), with their folders; none of a partition that is here.
    pub futures: Vec<(TopicPartition, String)>,
    /// Partitions on their way out (`...-delete`).
    pub deleted: Vec<String>,
    /// Folders of other names; Kafka does not start while there is one.
    pub others: Vec<String>,
}

/// A partition that could not be opened, and why.
pub type NotOpened = (TopicPartition, LogError);

impl LogDirectory {
    /// Locks the directory, which must exist, reads its checkpoints and removes the clean-shutdown marker: from now on it counts as not
    /// stopped cleanly. `interval`: how long after a high watermark moved its checkpoint is written, at most.
    pub fn open(home: Arc<Home>, interval: Duration) -> Result<Arc<Self>> {
        let lock = DirectoryLock::take(&home.path)?;
        let storage = &*home.storage;
        let read = |name: &str| {
            let path = home.path.join(name);
            match checkpoint::read_offsets(storage, &path) {
                // As Kafka: a checkpoint that cannot be read costs a longer recovery, nothing else.
                Err(LogError::Corrupt { .. }) => Ok(Offsets::new()),
                other => other,
            }
        };
        let state = State {
            logs: BTreeMap::new(),
            closed: HashSet::new(),
            high_watermarks: read(HIGH_WATERMARKS)?,
            recovery_points: read(RECOVERY_POINTS)?,
            start_offsets: read(START_OFFSETS)?,
            cleaned_offsets: read(CLEANED_OFFSETS)?,
        };
        let marker = home.path.join(CLEAN_SHUTDOWN);
        let was_clean = storage.exists(&marker).context("look at", &marker)?;
        if was_clean {
            storage.remove_file(&marker).context("remove", &marker)?;
            storage
                .sync_directory(&home.path)
                .context("sync", &home.path)?;
        }
        let directory = Arc::new(Self {
            home,
            lock: Mutex::new(Some(lock)),
            state: Mutex::new(state),
            writing: Mutex::new(()),
            was_clean,
            stop: Arc::new(AtomicBool::new(false)),
            checkpointer: Mutex::new(None),
        });
        let this = Arc::downgrade(&directory);
        directory
            .home
            .set_checkpoint(move || match Weak::upgrade(&this) {
                Some(directory) => directory.checkpoint_after_truncation(),
                None => Ok(()),
            });
        directory.start_checkpointer(interval)?;
        Ok(directory)
    }

    pub fn path(&self) -> &Path {
        &self.home.path
    }

    pub(super) fn home(&self) -> &Home {
        &self.home
    }

    /// True if a log's files are in this directory.
    pub(super) fn is_home_of(&self, log: &Log) -> bool {
        Arc::ptr_eq(&self.home, &log.home)
    }

    /// True if the last stop was clean.
    pub fn was_clean(&self) -> bool {
        self.was_clean
    }

    /// Why the directory is out of use; None while it is not.
    pub fn failure(&self) -> Option<String> {
        self.home.failure()
    }

    /// See [`Home::on_failure`].
    pub fn on_failure(&self, call: impl Fn() + Send + Sync + 'static) {
        self.home.on_failure(call);
    }

    /// See [`Home::fail_when_full`].
    pub fn fail_when_full(&self) {
        self.home.fail_when_full();
    }

    pub fn contents(&self) -> Result<Contents> {
        let mut contents = Contents::default();
        let path = &self.home.path;
        for entry in self.home.storage.list(path).context("list", path)? {
            if !entry.is_directory {
                continue;
            }
            if let Some(partition) = TopicPartition::from_folder_name(&entry.name) {
                contents.partitions.push(partition);
            } else if let Some(future) = TopicPartition::from_future_folder_name(&entry.name) {
                contents.futures.push((future, entry.name));
            } else if entry.name.ends_with(DELETED_FOLDER) {
                contents.deleted.push(entry.name);
            } else {
                contents.others.push(entry.name);
            }
        }
        contents.partitions.sort();
        contents.futures.sort();
        contents.futures.dedup_by(|next, first| next.0 == first.0);
        let here: HashSet<_> = contents.partitions.iter().cloned().collect();
        contents
            .futures
            .retain(|(future, _)| !here.contains(future));
        Ok(contents)
    }

    /// See [`Home::take_leftovers`].
    pub fn take_leftovers(&self) -> Vec<(PathBuf, std::io::Error)> {
        self.home.take_leftovers()
    }

    /// True if the folder `path` exists.
    pub(super) fn has_folder(&self, path: &Path) -> std::io::Result<bool> {
        self.home.storage.exists(path)
    }

    /// The logs that are open.
    pub fn logs(&self) -> Vec<Arc<Log>> {
        self.state.lock().logs.values().cloned().collect()
    }

    pub fn get(&self, partition: &TopicPartition) -> Option<Arc<Log>> {
        self.state.lock().logs.get(partition).cloned()
    }

    /// Opens every partition, `threads` at a time, each with what `config` says for its topic; removes deleted
    /// folders; [`take_leftovers`](Self::take_leftovers) has those that stay. The second list has the partitions that could not be opened.
    pub fn load_all(
        &self,
        threads: usize,
        config: impl Fn(&str) -> LogConfig + Sync,
    ) -> Result<(Vec<Arc<Log>>, Vec<NotOpened>)> {
        let contents = self.contents()?;
        for name in &contents.deleted {
            let path = self.path().join(name);
            let removed = remove_folder(&*self.home.storage, &path);
            self.home.note_leftover(&path, removed);
        }
        let folders = |partition: TopicPartition| (partition.folder_name(), partition);
        let mut found: Vec<_> = contents.partitions.into_iter().map(folders).collect();
        let futures = contents.futures.into_iter();
        found.extend(futures.map(|(partition, folder)| (folder, partition)));
        let results = in_parallel(threads, &found, |(folder, partition)| {
            self.load_folder(partition, folder, config(&partition.topic))
        });
        let (mut logs, mut failures) = (Vec::new(), Vec::new());
        for ((_, partition), result) in found.into_iter().zip(results) {
            match result {
                Ok(log) => logs.push(log),
                Err(error) => failures.push((partition, error)),
            }
        }
        Ok((logs, failures))
    }

    /// Opens one partition that exists; the same log if it is open already.
    pub fn load(&self, partition: &TopicPartition, config: LogConfig) -> Result<Arc<Log>> {
        self.load_folder(partition, &partition.folder_name(), config)
    }

    fn load_folder(
        &self,
        partition: &TopicPartition,
        folder: &str,
        config: LogConfig,
    ) -> Result<Arc<Log>> {
        let (hints, high_watermark) = {
            let state = self.state.lock();
            if let Some(log) = state.logs.get(partition) {
                return Ok(Arc::clone(log));
            }
            let get = |offsets: &Offsets| offsets.get(partition).copied().unwrap_or(0);
            let hints = Hints {
                clean: self.was_clean || state.closed.contains(partition),
                recovery_point: get(&state.recovery_points),
                start_offset: get(&state.start_offsets),
                high_watermark: get(&state.high_watermarks),
                cleaned_offset: state.cleaned_offsets.get(partition).copied(),
            };
            (hints, hints.high_watermark)
        };
        let opened = Log::open(&self.home, folder, config, hints, OpenMode::Append);
        let log = self.home.guard_read(opened)?;
        log.restore_high_watermark(high_watermark);
        self.state
            .lock()
            .logs
            .insert(partition.clone(), Arc::clone(&log));
        Ok(log)
    }

    /// Creates partitions that do not exist: their folders and first segments, `threads` at a time, and one fsync of this directory for all of
    /// them. A folder that is there already is opened. If one cannot be created, those that were stay on disk, and are opened by the next try.
    pub fn create(
        &self,
        partitions: &[TopicPartition],
        config: &LogConfig,
        threads: usize,
    ) -> Result<Vec<Arc<Log>>> {
        let threads = if partitions.len() < 16 { 1 } else { threads };
        let results = in_parallel(threads, partitions, |partition| {
            match Log::create(&self.home, partition, config.clone()) {
                // Left from a creation that did not come to its end.
                Err(LogError::Io { source, path, .. })
                    if source.kind() == std::io::ErrorKind::AlreadyExists
                        && self.is_folder(&path) =>
                {
                    self.load(partition, config.clone())
                }
                other => other,
            }
        });
        let logs = self
            .home
            .guard(results.into_iter().collect::<Result<Vec<_>>>())?;
        let path = &self.home.path;
        self.home
            .guard(self.home.storage.sync_directory(path).context("sync", path))?;
        let mut state = self.state.lock();
        for (partition, log) in partitions.iter().zip(&logs) {
            if !state.logs.contains_key(partition) {
                // What a partition of this name left behind says nothing about the new one.
                state.forget(partition);
            }
            state.logs.insert(partition.clone(), Arc::clone(log));
        }
        Ok(logs)
    }

    fn is_folder(&self, path: &Path) -> bool {
        let found = self.home.storage.metadata(path);
        found.is_ok_and(|found| found.is_directory)
    }

    /// Creates the folder into which a partition moves from another directory: see [`moving`](super::moving).
    pub fn create_future(
        &self,
        partition: &TopicPartition,
        config: LogConfig,
        unique_id: u128,
    ) -> Result<Arc<Log>> {
        if self.get(partition).is_some() {
            return Err(LogError::Locked(
                self.home.path.join(partition.folder_name()),
            ));
        }
        let folder = partition.future_folder_name(unique_id);
        let created = Log::create_in(&self.home, &folder, partition, config);
        let log = self.home.guard(created)?;
        log.future.store(true, Ordering::Release);
        let mut state = self.state.lock();
        state.forget(partition);
        state.logs.insert(partition.clone(), Arc::clone(&log));
        Ok(log)
    }

    /// Gives a future log the name of its partition, durably.
    pub(super) fn take_place(&self, future: &Log) -> Result<()> {
        let path = self.home.path.join(future.partition.folder_name());
        let renamed = future.folder.rename(&path).context("rename", &path);
        self.home.guard(renamed)?;
        future.future.store(false, Ordering::Release);
        let synced = self.home.storage.sync_directory(&self.home.path);
        self.home.guard(synced.context("sync", &self.home.path))
    }

    /// The partition is not in this directory any more.
    pub(super) fn forget(&self, partition: &TopicPartition) {
        let mut state = self.state.lock();
        state.forget(partition);
        state.logs.remove(partition);
    }

    /// Applies retention to every log, and forgets producers that were idle for too long. A log that fails does not stop the others; the first
    /// error is told in the end. Returns how many segments were deleted, of the logs of which some were.
    pub fn delete_old_segments(
        &self,
        now_ms: i64,
    ) -> (Vec<(TopicPartition, usize)>, Option<LogError>) {
        let now_ms = self.home.at(now_ms);
        let logs: Vec<_> = self.state.lock().logs.values().cloned().collect();
        let (mut deleted, mut failure) = (Vec::new(), None);
        for log in logs {
            log.expire_producers(now_ms);
            match log.delete_old_segments(now_ms) {
                Ok(0) => {}
                Ok(count) => deleted.push((log.partition.clone(), count)),
                // It was deleted meanwhile.
                Err(LogError::Closed(_)) => {}
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        (deleted, failure)
    }

    /// Removes a partition: see [`Log::delete`]. Its checkpoints forget it first, so that a partition of the same name starts clean.
    pub fn delete(&self, partition: &TopicPartition, unique_id: u128) -> Result<()> {
        match self.take_out(partition)? {
            Some(log) => log.delete(unique_id),
            None => Ok(()),
        }
    }

    /// Closes a log, whose folder is the caller's from now on. The directory and its checkpoints know nothing of it any more, so that a partition of
    /// the same name starts clean.
    pub fn release(&self, partition: &TopicPartition) -> Result<()> {
        match self.take_out(partition)? {
            Some(log) => log.close(true),
            None => Ok(()),
        }
    }

    fn take_out(&self, partition: &TopicPartition) -> Result<Option<Arc<Log>>> {
        let (log, noted) = {
            let mut state = self.state.lock();
            let noted = state.start_offsets.contains_key(partition)
                || state.cleaned_offsets.contains_key(partition);
            state.forget(partition);
            (state.logs.remove(partition), noted)
        };
        // Offsets in the files that mean nothing for the next one of this name, and would be believed after a crash.
        if let Some(log) = &log
            && (noted || explicit_start(log).is_some() || log.cleaned_offset().is_some())
        {
            self.checkpoint_start_offsets()?;
            self.checkpoint_cleaned_offsets()?;
        }
        Ok(log)
    }

    /// The partitions that the checkpoints name, and that are not open: those whose folders are gone, after all were loaded.
    pub fn missing(&self) -> Vec<TopicPartition> {
        let state = self.state.lock();
        let tables = [
            &state.high_watermarks,
            &state.recovery_points,
            &state.start_offsets,
            &state.cleaned_offsets,
        ];
        let named = tables.iter().flat_map(|table| table.keys());
        let missing: BTreeSet<_> = named
            .filter(|partition| !state.logs.contains_key(*partition))
            .collect();
        missing.into_iter().cloned().collect()
    }

    /// Reads a partition from its first byte, cuts it at the first damage and rebuilds what is derived from its batches, whatever the checkpoints say.
    /// The log is open afterwards.
    pub fn repair(&self, partition: &TopicPartition, config: LogConfig) -> Result<Arc<Log>> {
        let start_offset = self
            .state
            .lock()
            .start_offsets
            .get(partition)
            .copied()
            .unwrap_or(0);
        let hints = Hints {
            start_offset,
            ..Hints::default()
        };
        // Gaps between offsets may be compaction's: they are no damage here.
        let config = LogConfig {
            compact: true,
            ..config
        };
        let log = Log::open(
            &self.home,
            &partition.folder_name(),
            config,
            hints,
            OpenMode::Append,
        )?;
        self.state
            .lock()
            .logs
            .insert(partition.clone(), Arc::clone(&log));
        Ok(log)
    }

    /// Closes one log and keeps the directory open: the partition may be loaded again.
    pub fn close_log(&self, partition: &TopicPartition) -> Result<()> {
        let Some(log) = self.get(partition) else {
            return Ok(());
        };
        log.close(true)?;
        let mut state = self.state.lock();
        state.logs.remove(partition);
        if !log.is_broken() {
            state.closed.insert(partition.clone());
        }
        state
            .high_watermarks
            .insert(partition.clone(), log.high_watermark());
        state
            .recovery_points
            .insert(partition.clone(), log.flushed_offset());
        if let Some(start_offset) = explicit_start(&log) {
            state.start_offsets.insert(partition.clone(), start_offset);
        }
        if let Some(cleaned_offset) = log.cleaned_offset() {
            state
                .cleaned_offsets
                .insert(partition.clone(), cleaned_offset);
        }
        Ok(())
    }

    /// Writes `recovery-point-offset-checkpoint`: what was flushed of each log.
    pub fn checkpoint_recovery_points(&self) -> Result<()> {
        let _writing = self.writing.lock();
        let offsets = {
            let state = self.state.lock();
            state.table(&state.recovery_points, |log| Some(log.flushed_offset()))
        };
        self.write(RECOVERY_POINTS, &offsets)
    }

    /// Writes `log-start-offset-checkpoint`: start offsets that are not the first segment's. Call it before a deletion of records is
    /// answered: without it a restart would bring them back.
    pub fn checkpoint_start_offsets(&self) -> Result<()> {
        let _writing = self.writing.lock();
        let offsets = {
            let state = self.state.lock();
            state.table(&state.start_offsets, explicit_start)
        };
        self.write(START_OFFSETS, &offsets)
    }

    /// Writes `replication-offset-checkpoint`.
    pub fn checkpoint_high_watermarks(&self) -> Result<()> {
        let _writing = self.writing.lock();
        self.write(HIGH_WATERMARKS, &self.high_watermarks())
    }

    /// The same, as the directory does by itself whenever a high watermark moved. A power cut may bring back the table before, from which recovery
    /// goes on as well; and waiting several times a second until the disk has the folder too is felt by whoever appends.
    fn note_high_watermarks(&self) -> Result<()> {
        let _writing = self.writing.lock();
        self.write_by(HIGH_WATERMARKS, &self.high_watermarks(), |path, text| {
            self.home.storage.replace_unsynced(path, text, true)
        })
    }

    fn high_watermarks(&self) -> Offsets {
        let state = self.state.lock();
        state.table(&state.high_watermarks, |log| Some(log.high_watermark()))
    }

    /// Writes `cleaner-offset-checkpoint`: where the last cleaning of each log ended.
    pub fn checkpoint_cleaned_offsets(&self) -> Result<()> {
        let _writing = self.writing.lock();
        let offsets = {
            let state = self.state.lock();
            state.table(&state.cleaned_offsets, Log::cleaned_offset)
        };
        self.write(CLEANED_OFFSETS, &offsets)
    }

    /// The tables that may say more of a log than is left of it.
    pub(super) fn checkpoint_after_truncation(&self) -> Result<()> {
        self.checkpoint_recovery_points()?;
        if self.home.take_start_moved_back() {
            let written = self.checkpoint_start_offsets();
            if written.is_err() {
                self.home.note_start_moved_back();
            }
            written?;
        }
        let cleaned = !self.state.lock().cleaned_offsets.is_empty()
            || self.logs().iter().any(|log| log.cleaned_offset().is_some());
        if cleaned {
            self.checkpoint_cleaned_offsets()?;
        }
        Ok(())
    }

    /// The logs that can be cleaned: every log that is compacted, with its state. A log that cannot
    /// be looked at is set aside.
    pub fn cleanable(&self, now_ms: i64) -> Vec<(TopicPartition, Cleanable)> {
        let now_ms = self.home.at(now_ms);
        let compacted = |log: &Arc<Log>| log.config().compact;
        let logs: Vec<_> = self.logs().into_iter().filter(compacted).collect();
        logs.iter()
            .filter_map(|log| match log.cleanable(now_ms) {
                Ok(cleanable) => Some((log.partition.clone(), cleanable?)),
                Err(error) => {
                    log.set_aside(&error);
                    None
                }
            })
            .collect()
    }

    /// [`Log::clean`], with the checkpoint that says so. A log whose content cannot be cleaned is set aside.
    pub fn clean(
        &self,
        partition: &TopicPartition,
        cleaner: &Cleaner,
        first_dirty_offset: i64,
        first_uncleanable_offset: i64,
    ) -> Result<CleanReport> {
        let log = self
            .get(partition)
            .ok_or(LogError::CleaningStopped("the log is gone"))?;
        let range = (first_dirty_offset, first_uncleanable_offset);
        let cleaned = outcome(|| self.clean_noted(&log, cleaner, range));
        if let Err(error) = &cleaned {
            log.set_aside(error);
        }
        cleaned
    }

    fn clean_noted(
        &self,
        log: &Log,
        cleaner: &Cleaner,
        (first_dirty_offset, first_uncleanable_offset): (i64, i64),
    ) -> Result<CleanReport> {
        if log.cleaned_offset().is_none() {
            // From now on gaps are no sign of damage.
            log.note_cleaned(first_dirty_offset);
            self.checkpoint_cleaned_offsets()?;
        }
        let report = log.clean(cleaner, first_dirty_offset, first_uncleanable_offset)?;
        self.checkpoint_cleaned_offsets()?;
        Ok(report)
    }

    fn write(&self, name: &str, offsets: &Offsets) -> Result<()> {
        self.write_by(name, offsets, |path, text| {
            self.home.storage.replace(path, text)
        })
    }

    fn write_by(
        &self,
        name: &str,
        offsets: &Offsets,
        replace: impl FnOnce(&Path, &[u8]) -> std::io::Result<()>,
    ) -> Result<()> {
        self.home.check()?;
        let path = self.path().join(name);
        let text = checkpoint::encode_offsets(offsets);
        self.home
            .guard(replace(&path, text.as_bytes()).context("replace", &path))
    }

    fn start_checkpointer(self: &Arc<Self>, interval: Duration) -> Result<()> {
        let (this, stop, home) = (
            Arc::downgrade(self),
            Arc::clone(&self.stop),
            Arc::clone(&self.home),
        );
        let run = move || {
            while home.wait_for_move(&stop) && !stop.load(Ordering::Acquire) {
                // What moves meanwhile is written with it.
                home.wait(interval, &stop);
                home.take_moved();
                let Some(directory) = Weak::upgrade(&this) else {
                    return;
                };
                // An error has taken the directory out of use. Of a panic the log tells, and the next table is a new one.
                if let Ok(Err(_)) = catching(|| directory.note_high_watermarks()) {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name("ottla-checkpoint".to_owned())
            .spawn(run);
        *self.checkpointer.lock() = Some(thread.context("start a thread for", self.path())?);
        Ok(())
    }

    /// Closes every log, `threads` at a time. With `clean`, everything is flushed, the checkpoints are written and the marker of a clean stop is left;
    /// without, as if the process ended here.
    pub fn close(&self, clean: bool, threads: usize) -> Result<()> {
        self.close_from(clean, threads, AT_ONCE)
    }

    /// As `close`; `at_once` is how many unflushed logs are made durable together.
    pub(super) fn close_from(&self, clean: bool, threads: usize, at_once: usize) -> Result<()> {
        self.stop.store(true, Ordering::Release);
        self.home.wake_all();
        if let Some(thread) = self.checkpointer.lock().take()
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
        if self.lock.lock().is_none() {
            return Ok(());
        }
        let result = self.close_logs(clean, threads, at_once);
        // The lock goes last, whatever happened.
        *self.lock.lock() = None;
        result
    }

    fn close_logs(&self, clean: bool, threads: usize, at_once: usize) -> Result<()> {
        let logs = self.logs();
        let unflushed = logs.iter().filter(|log| log.is_unflushed()).count();
        let at_once = clean && unflushed >= at_once && self.home.storage.can_sync_all();
        let results = in_parallel(threads, &logs, |log| log.close(clean && !at_once));
        results.into_iter().collect::<Result<Vec<()>>>()?;
        if !clean {
            return Ok(());
        }
        if at_once {
            let synced = self.home.storage.sync_all(self.path());
            self.home
                .guard(synced.context("sync the file system of", self.path()))?;
            logs.iter().for_each(|log| log.note_flushed());
        }
        self.checkpoint_recovery_points()?;
        self.checkpoint_start_offsets()?;
        self.checkpoint_high_watermarks()?;
        if !self.state.lock().cleaned_offsets.is_empty()
            || logs.iter().any(|log| log.cleaned_offset().is_some())
        {
            self.checkpoint_cleaned_offsets()?;
        }
        // Partitions that were not opened are only as clean as they were.
        let mut open = self.state.lock().closed.clone();
        open.extend(logs.iter().map(|log| log.partition.clone()));
        let contents = self.contents()?;
        let futures = contents.futures.iter().map(|(future, _)| future);
        let whole = contents
            .partitions
            .iter()
            .chain(futures)
            .all(|partition| open.contains(partition));
        let all_finished = !logs.iter().any(|log| log.is_broken());
        if all_finished && (whole || self.was_clean) {
            let marker = self.path().join(CLEAN_SHUTDOWN);
            self.home
                .storage
                .open(&marker, Mode::Create)
                .context("create", &marker)?;
            self.home
                .storage
                .sync_directory(self.path())
                .context("sync", self.path())?;
        }
        Ok(())
    }
}

/// The start offset, if a deletion of records put it inside the log; else it is the first segment's and needs no note.
fn explicit_start(log: &Log) -> Option<i64> {
    let first = log.segments().first().map_or(0, |first| first.base_offset);
    (log.start_offset() > first).then(|| log.start_offset())
}

impl Drop for LogDirectory {
    fn drop(&mut self) {
        let _ = self.close(false, 1);
    }
}

impl State {
    fn forget(&mut self, partition: &TopicPartition) {
        self.closed.remove(partition);
        self.high_watermarks.remove(partition);
        self.recovery_points.remove(partition);
        self.start_offsets.remove(partition);
        self.cleaned_offsets.remove(partition);
    }

    /// The offsets of open logs, and of the others what was there.
    fn table(&self, before: &Offsets, of: impl Fn(&Log) -> Option<i64>) -> Offsets {
        let closed = before
            .iter()
            .filter(|(partition, _)| !self.logs.contains_key(*partition));
        let open = self
            .logs
            .iter()
            .filter_map(|(partition, log)| Some((partition.clone(), of(log)?)));
        closed
            .map(|(partition, offset)| (partition.clone(), *offset))
            .chain(open)
            .collect()
    }
}

/// Runs `work` on every item, on up to `threads` threads, this one included; results in the order of the items.
pub(super) fn in_parallel<T: Sync, R: Send>(
    threads: usize,
    items: &[T],
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let run = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else {
                return done;
            };
            done.push((at, work(item)));
        }
    };
    let mut results: Vec<(usize, R)> = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads.min(items.len()))
            .map(|_| scope.spawn(run))
            .collect();
        let mut results = run();
        for other in others {
            match other.join() {
                Ok(more) => results.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        results
    });
    results.sort_unstable_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}

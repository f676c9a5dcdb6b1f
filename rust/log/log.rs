//! A log: the segments of one partition, and what is known about their content.
//!
//! **Who may call what.** Everything takes `&self` and may be called from any thread. Appends, truncation, rolling and deletion serialise on
//! one writer lock; reads and lookups never take it. What readers see is one pair, [`Published`]: the log end offset and where in which
//! segment it is. It is replaced after data, indexes and producer state are done, so a reader never meets a batch that is half there.
//! A panic under one of the locks may leave a change half done: the log then takes no more until it is opened again, and is read on.
//!
//! **What survives.** After `append` returns, a crash of the process loses nothing; a power cut loses what is at or after
//! `flushed_offset`, which moves by [`flush`](super::flush). `log_start <= high_watermark <= end` holds whenever the writer lock is free.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use arc_swap::ArcSwap;
use parking_lot::{Mutex, RwLock};

use super::bound::Unstable;
use super::cleaner::Cleaned;
use super::config::LogConfig;
use super::error::{Context, LogError, Result};
use super::files::Folder;
use super::flush::FlushState;
use super::home::{CREATE_FOLDER, Home, now_ms};
use super::leader_epochs::LeaderEpochs;
use super::names::{Kind, Suffix, TopicPartition};
use super::producer_state::ProducerState;
use super::segment::Segment;
use super::snapshots::{snapshots, take_snapshot};
use super::staged::Staged;
use super::truncate::Cut;
use super::verification::Verifications;
use super::watch::HighWatermarkWatch;
use crate::io::panics::{Broken, Panicked, Watched, outcome};
use crate::traffic::Traffic;

/// How a log is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// Nothing is written, removed or locked; what a live writer has half done is left out.
    Read,
    /// Recovered, then ready for appends.
    Append,
}

/// The end of the log, as one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// The offset that the next record gets.
    pub end_offset: i64,
    /// The base offset of the active segment,
    pub segment: i64,
    /// and its size in bytes.
    pub position: u64,
    /// End offset and size before the last write to it: what readers at the log's end wait for begins there.
    pub last_write: (i64, u64),
}

/// A list that readers take a copy of: changing it replaces it.
pub type Segments = Arc<Vec<Arc<Segment>>>;

/// Leader epochs that no append is compared with.
pub const ANY_EPOCH: i32 = i32::MIN;

pub struct Log {
    pub(super) this: Weak<Log>,
    pub partition: TopicPartition,
    pub mode: OpenMode,
    pub(super) home: Arc<Home>,
    pub(super) folder: Arc<Folder>,
    pub(super) config: ArcSwap<LogConfig>,
    pub(super) segments: ArcSwap<Vec<Arc<Segment>>>,
    pub(super) published: RwLock<Published>,
    /// That of `published`, for whoever needs nothing else of it.
    end_offset: AtomicI64,
    pub(super) start_offset: AtomicI64,
    pub(super) high_watermark: AtomicI64,
    pub(super) high_watermark_watch: HighWatermarkWatch,
    pub(super) epochs: RwLock<LeaderEpochs>,
    /// The epoch that appends must name; ANY_EPOCH before a role is known.
    pub(super) expected_epoch: AtomicI32,
    /// The leader epoch in which the leader began to lead without a break: an append may name any from there to the expected one.
    pub(super) led_since: AtomicI32,
    /// See [`writer`](Log::writer).
    pub(super) writer: Watched<Writer>,
    /// Something is staged, or was lost since the turn began.
    pub(super) has_staged: AtomicBool,
    /// How many writes of what was staged failed; changed under `writer`.
    pub(super) losses: AtomicU64,
    pub(super) flush: Mutex<FlushState>,
    pub(super) flushed_offset: AtomicI64,
    /// Where the log ended when a flush was due last.
    pub(super) flush_due_to: AtomicI64,
    /// A flush by `flush.ms` is on its way.
    pub(super) flush_timer: AtomicBool,
    pub(super) pending: ArcSwap<Mutex<super::pending::Pending>>,
    pub(super) unstable: Unstable,
    /// First batches of transactions that were announced and did not come yet.
    pub(super) verifications: Mutex<Verifications>,
    /// There may be aborted transactions: without any, nobody looks for them.
    pub(super) has_aborted: AtomicBool,
    /// Held while closed segments are taken out of the list and renamed, so that truncation, deletion and compaction come one after the
    /// other. Taken before `writer`, and never by an append.
    pub(super) layout: Watched<()>,
    /// A thread panicked while it held `writer` or `layout`, or in a flush.
    broken: Broken,
    /// Held by whoever compacts the log.
    pub(super) cleaning: Mutex<()>,
    pub(super) cleaned: Mutex<Cleaned>,
    pub(super) closed: AtomicBool,
    /// It is a copy that is on its way into this directory: see [`moving`](super::moving).
    pub(super) future: AtomicBool,
    /// It is being copied into another directory: until that is over it is not cleaned.
    pub(super) moving: AtomicBool,
    /// The log in another directory that took this one's place: appends go there.
    pub(super) successor: OnceLock<Arc<Log>>,
    /// Its folder is renamed `-delete`, or is about to be: see [`guard`](Log::guard).
    pub(super) leaving: AtomicBool,
    /// Set at the first append or truncation, so that a log that was only read costs nothing to close.
    pub(super) changed: AtomicBool,
    /// Bytes in all segments, active one included.
    pub(super) size_bytes: AtomicU64,
    pub(super) traffic: Arc<Traffic>,
}

/// The state that only the one that appends needs.
pub(super) struct Writer {
    pub producers: ProducerState,
    /// The milliseconds that are taken off `segment.ms` for the active segment.
    pub jitter_ms: i64,
    /// The epoch that the last append noted; -1 after anything else changed the table.
    pub epoch: i32,
    /// True if the leader-epoch file says what the table says; not after a full disk refused it.
    pub epochs_saved: bool,
    pub staged: Staged,
    /// See [`settle`](Log::settle).
    pub unsettled: Option<Arc<Cut>>,
}

impl Log {
    /// The state that recovery found, as a log.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn new(
        home: Arc<Home>,
        folder: Arc<Folder>,
        partition: TopicPartition,
        mode: OpenMode,
        config: LogConfig,
        segments: Vec<Arc<Segment>>,
        end_offset: i64,
        start_offset: i64,
        flushed_offset: i64,
        epochs: LeaderEpochs,
        producers: ProducerState,
        has_aborted: bool,
    ) -> Arc<Self> {
        let (segment, position) = segments.last().map_or((start_offset, 0), |active| {
            (active.base_offset, active.size_bytes())
        });
        let size = segments.iter().map(|segment| segment.size_bytes()).sum();
        let jitter_ms = jitter_ms(&config);
        let unstable = Unstable::of(&producers);
        let broken = Broken::default();
        let writer = Writer {
            producers,
            jitter_ms,
            epoch: -1,
            epochs_saved: true,
            staged: Staged::default(),
            unsettled: None,
        };
        Arc::new_cyclic(|this| Self {
            this: this.clone(),
            traffic: home.traffic.of(&partition.topic),
            partition,
            mode,
            home,
            folder,
            config: ArcSwap::from_pointee(config),
            segments: ArcSwap::from_pointee(segments),
            end_offset: AtomicI64::new(end_offset),
            published: RwLock::new(Published {
                end_offset,
                segment,
                position,
                last_write: (segment, 0),
            }),
            start_offset: AtomicI64::new(start_offset),
            high_watermark: AtomicI64::new(start_offset),
            high_watermark_watch: HighWatermarkWatch::default(),
            epochs: RwLock::new(epochs),
            expected_epoch: AtomicI32::new(ANY_EPOCH),
            led_since: AtomicI32::new(ANY_EPOCH),
            writer: Watched::new(writer, &broken),
            has_staged: AtomicBool::new(false),
            losses: AtomicU64::new(0),
            flush: Mutex::new(FlushState::default()),
            flushed_offset: AtomicI64::new(flushed_offset),
            flush_due_to: AtomicI64::new(0),
            flush_timer: AtomicBool::new(false),
            pending: ArcSwap::default(),
            unstable,
            verifications: Mutex::default(),
            has_aborted: AtomicBool::new(has_aborted),
            layout: Watched::new((), &broken),
            broken,
            cleaning: Mutex::default(),
            cleaned: Mutex::default(),
            closed: AtomicBool::new(false),
            future: AtomicBool::new(false),
            moving: AtomicBool::new(false),
            successor: OnceLock::new(),
            leaving: AtomicBool::new(false),
            changed: AtomicBool::new(false),
            size_bytes: AtomicU64::new(size),
        })
    }

    /// A new partition, whose folder must not exist. Nothing is synced yet.
    pub fn create(
        home: &Arc<Home>,
        partition: &TopicPartition,
        config: LogConfig,
    ) -> Result<Arc<Self>> {
        Self::create_in(home, &partition.folder_name(), partition, config)
    }

    pub(super) fn create_in(
        home: &Arc<Home>,
        folder_name: &str,
        partition: &TopicPartition,
        config: LogConfig,
    ) -> Result<Arc<Self>> {
        home.check()?;
        let path = home.path.join(folder_name);
        home.storage
            .create_directory(&path)
            .context(CREATE_FOLDER, &path)?;
        let folder = Folder::of(home, &path);
        let first = Segment::create(&folder, 0, now_ms(), &home.cache)?;
        let log = Self::new(
            Arc::clone(home),
            folder,
            partition.clone(),
            OpenMode::Append,
            config,
            vec![first],
            0,
            0,
            0,
            LeaderEpochs::default(),
            ProducerState::default(),
            false,
        );
        log.note_created();
        Ok(log)
    }

    /// True if the log is a copy on its way between data directories.
    pub fn is_future(&self) -> bool {
        self.future.load(Ordering::Acquire)
    }

    pub fn directory(&self) -> Arc<std::path::Path> {
        self.folder.path()
    }

    pub fn config(&self) -> Arc<LogConfig> {
        self.config.load_full()
    }

    /// New settings, from the next append on.
    pub fn update_config(&self, config: LogConfig) {
        self.config.store(Arc::new(config));
    }

    pub fn segments(&self) -> Segments {
        self.segments.load_full()
    }

    pub fn published(&self) -> Published {
        *self.published.read()
    }

    /// The log end offset.
    pub fn end_offset(&self) -> i64 {
        self.end_offset.load(Ordering::Acquire)
    }

    /// The first offset that may be read.
    pub fn start_offset(&self) -> i64 {
        self.start_offset.load(Ordering::Acquire)
    }

    /// Everything before it survives a power cut.
    pub fn flushed_offset(&self) -> i64 {
        self.flushed_offset.load(Ordering::Acquire)
    }

    pub fn high_watermark(&self) -> i64 {
        self.high_watermark.load(Ordering::Acquire)
    }

    /// Bytes of all segments.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes.load(Ordering::Relaxed)
    }

    /// Moves the high watermark, clamped to what the log has. True if it moved.
    pub fn set_high_watermark(&self, offset: i64) -> bool {
        let offset = offset.clamp(self.start_offset(), self.end_offset());
        if self.high_watermark.swap(offset, Ordering::SeqCst) == offset {
            return false;
        }
        self.high_watermark_watch.moved();
        self.home.high_watermark_moved();
        true
    }

    /// Moves the high watermark up to an offset, if it is lower. True if it was. Threads may do so at once.
    pub fn raise_high_watermark(&self, offset: i64) -> bool {
        let offset = offset.clamp(self.start_offset(), self.end_offset());
        if self.high_watermark() >= offset
            || self.high_watermark.fetch_max(offset, Ordering::SeqCst) >= offset
        {
            return false;
        }
        self.high_watermark_watch.moved();
        self.home.high_watermark_moved();
        true
    }

    /// Moves the high watermark to the log's end. True if it was lower.
    pub fn advance_high_watermark(&self) -> bool {
        self.raise_high_watermark(self.end_offset())
    }

    /// Sets the high watermark to the one of the checkpoint, clamped to the log. Nobody is told that
    /// it moved.
    pub(super) fn restore_high_watermark(&self, offset: i64) {
        self.high_watermark.store(
            offset.clamp(self.start_offset(), self.end_offset()),
            Ordering::Release,
        );
    }

    pub fn leader_epoch(&self) -> i32 {
        self.epochs.read().latest()
    }

    /// Counts of what went through the topic.
    pub fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// (epoch, first offset) for every epoch of the log.
    pub fn leader_epochs(&self) -> LeaderEpochs {
        self.epochs.read().clone()
    }

    /// The epoch that wrote `offset`; -1 if unknown.
    pub fn epoch_of(&self, offset: i64) -> i32 {
        self.epochs.read().epoch_of(offset)
    }

    /// See [`LeaderEpochs::end_offset`].
    pub fn epoch_end_offset(&self, epoch: i32) -> Option<(i32, i64)> {
        self.epochs.read().end_offset(epoch, self.end_offset())
    }

    /// Before anything that writes.
    #[inline]
    pub(super) fn check_writable(&self) -> Result<()> {
        let is_usable = !self.closed.load(Ordering::Acquire)
            && self.mode != OpenMode::Read
            && self.broken.get().is_none()
            && !self.home.is_failed();
        if is_usable {
            return Ok(());
        }
        self.check_each()
    }

    #[cold]
    fn check_each(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            return Err(LogError::Closed(self.partition.to_string()));
        }
        if self.mode == OpenMode::Read {
            return Err(LogError::ReadOnly(self.partition.to_string()));
        }
        self.check_whole()?;
        self.home.check()
    }

    /// An error once a panic has taken the log out of use.
    pub(super) fn check_whole(&self) -> Result<()> {
        match self.broken.get() {
            None => Ok(()),
            Some(reason) => Err(LogError::Broken {
                log: self.partition.to_string(),
                reason: reason.clone(),
            }),
        }
    }

    /// True if a panic took the log out of use: see [`LogError::Broken`].
    pub fn is_broken(&self) -> bool {
        self.broken.get().is_some()
    }

    /// Takes the log out of use until it is opened again; returns the error that all who would write get from now on.
    pub(super) fn break_by(&self, panicked: Panicked) -> LogError {
        let reason = self.broken.get_or_init(|| panicked).clone();
        let log = self.partition.to_string();
        LogError::Broken { log, reason }
    }

    /// Returns what `work` on this log returns. If it panicked that is an error, namely the one
    /// that all others get from now on if it broke the log.
    pub(super) fn outcome<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        match outcome(work) {
            Err(LogError::Panicked(panicked)) => {
                self.check_whole()?;
                Err(panicked.into())
            }
            other => other,
        }
    }

    /// As [`Home::guard`], for what is written to this log: where its folder is going away, what is not found there says nothing about the disk.
    pub(super) fn guard<T>(&self, result: Result<T>) -> Result<T> {
        if self.leaving.load(Ordering::Acquire) {
            self.home.guard_read(result)
        } else {
            self.home.guard(result)
        }
    }

    pub(super) fn active(&self) -> Result<Arc<Segment>> {
        let segments = self.segments.load();
        segments
            .last()
            .cloned()
            .ok_or_else(|| LogError::Closed(self.partition.to_string()))
    }

    pub(super) fn publish(&self, end_offset: i64, active: &Segment) {
        debug_assert!(self.start_offset() <= end_offset);
        let mut current = self.published.write();
        let grew = current.segment == active.base_offset && current.end_offset <= end_offset;
        *current = Published {
            end_offset,
            segment: active.base_offset,
            position: active.size_bytes(),
            last_write: if grew {
                (current.end_offset, current.position)
            } else {
                (active.base_offset, 0)
            },
        };
        self.end_offset.store(end_offset, Ordering::Release);
    }

    /// Becoming leader: from now on appends must name `epoch`, and the epoch starts at the log's end even if nothing is ever appended in it.
    /// `OtherEpoch`, with nothing changed, if the log is in a newer epoch: what that one wrote would be lost from the table.
    pub fn begin_epoch(&self, epoch: i32) -> Result<()> {
        if let Some(next) = self.successor.get() {
            return next.begin_epoch(epoch);
        }
        self.check_writable()?;
        self.raise_epoch(epoch)?;
        let mut writer = self.writer();
        if let Some(next) = self.successor.get() {
            // It took this one's place while we waited for the lock.
            drop(writer);
            return next.begin_epoch(epoch);
        }
        // The next role change may have come first.
        self.check_epoch(epoch)?;
        // A leader's appends must not have to do it: they may be the loop's.
        self.settle(&mut writer)?;
        if self.config().message_format < 2 {
            // Its messages would not say who wrote them, so nobody may ask the table (as in Kafka).
            return self.clear_epochs(&mut writer);
        }
        let end_offset = self.end_offset();
        self.assign_epoch(&mut writer, epoch, end_offset)
    }

    /// Messages of old formats carry no epoch: a log that gets them forgets all, and followers truncate to the high watermark.
    pub(super) fn clear_epochs(&self, writer: &mut Writer) -> Result<()> {
        writer.epoch = -1;
        if self.epochs.read().entries().is_empty() {
            return Ok(());
        }
        self.epochs.write().truncate_from_end(0);
        self.save_epochs(writer)
    }

    pub(super) fn assign_epoch(
        &self,
        writer: &mut Writer,
        epoch: i32,
        start_offset: i64,
    ) -> Result<()> {
        let changed = self.epochs.write().assign(epoch, start_offset);
        if changed || !writer.epochs_saved {
            self.save_epochs(writer)?;
        }
        writer.epoch = epoch;
        Ok(())
    }

    pub(super) fn save_epochs(&self, writer: &mut Writer) -> Result<()> {
        self.note_epochs_changed();
        writer.epochs_saved = false;
        let epochs = self.epochs.read().clone();
        self.guard(epochs.save(&self.folder))?;
        writer.epochs_saved = true;
        Ok(())
    }

    /// Closes the active segment and starts the next one, at the log's end or later. Does nothing to a segment that is empty.
    pub fn roll(&self) -> Result<()> {
        self.check_writable()?;
        let mut writer = self.writer();
        let end_offset = self.end_offset();
        self.guard(self.roll_at(&mut writer, end_offset, now_ms()))?;
        Ok(())
    }

    pub(super) fn roll_at(
        &self,
        writer: &mut Writer,
        offset: i64,
        now_ms: i64,
    ) -> Result<Arc<Segment>> {
        let active = self.active()?;
        let end_offset = self.end_offset();
        let base_offset = offset.max(end_offset);
        if active.is_empty() && active.base_offset == base_offset {
            return Ok(active);
        }
        self.settle(writer)?;
        active.finish()?;
        writer.producers.end_offset = base_offset;
        take_snapshot(&self.folder, &mut writer.producers)?;
        let next = Segment::create(&self.folder, base_offset, now_ms, &self.home.cache)?;
        let mut segments = Vec::clone(&self.segments());
        if active.is_empty() {
            // An empty segment whose offsets the next batch does not fit into: it is replaced.
            segments.pop();
            active.remove(Suffix::None)?;
        }
        segments.push(Arc::clone(&next));
        self.segments.store(Arc::new(segments));
        writer.jitter_ms = jitter_ms(&self.config());
        self.note_created();
        self.publish(end_offset, &next);
        if self.home.background
            && let Some(log) = self.this.upgrade()
        {
            // What was closed goes to disk without anybody waiting for it.
            log.flush_async(Box::new(drop));
        }
        Ok(next)
    }

    /// Milliseconds since 1970, by the clock of the log's machine.
    pub fn now_ms(&self) -> i64 {
        self.home.now_ms()
    }

    /// Forgets producers that wrote nothing for `producer_id_expiration_ms`.
    pub fn expire_producers(&self, now_ms: i64) -> usize {
        let expiration_ms = self.config().producer_id_expiration_ms;
        self.verifications.lock().expire(now_ms, expiration_ms);
        self.writer.lock().producers.expire(now_ms, expiration_ms)
    }

    /// Ends all use: producer state and indexes are written, descriptors closed. With `flush`, everything is durable when it returns.
    /// A log that is closed answers every call with an error; closing it again does nothing.
    pub fn close(&self, flush: bool) -> Result<()> {
        if self.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        self.wait_for_cleaning();
        let mut writer = self.writer();
        let segments = self.segments();
        let mut result = Ok(());
        if self.is_ours() && self.home.failure().is_none() {
            result = self.finish(&mut writer, &segments, flush);
        }
        for segment in segments.iter() {
            segment.file.close();
        }
        self.guard(result)
    }

    /// True if closing the log cleanly has something to make durable.
    pub fn is_unflushed(&self) -> bool {
        self.is_ours()
            && (self.changed.load(Ordering::Acquire)
                || self.flushed_offset() < self.published().end_offset
                || self.has_unflushed_files())
    }

    /// After `close(false)`: all that it wrote was made durable with everything else on its file system.
    pub fn note_flushed(&self) {
        if self.is_ours() {
            self.take_unflushed();
            self.flushed_offset
                .store(self.published().end_offset, Ordering::Release);
        }
    }

    /// True if the files in its folder are this log's to finish. What it knows of itself after a
    /// panic is not to be believed at the next start.
    fn is_ours(&self) -> bool {
        self.mode == OpenMode::Append && !self.leaving.load(Ordering::Acquire) && !self.is_broken()
    }

    fn finish(&self, writer: &mut Writer, segments: &[Arc<Segment>], flush: bool) -> Result<()> {
        let before = writer.producers.snapshot_offset;
        // Where there is no snapshot after a clean stop there were no producers: one file less for each of thousands of logs.
        if !writer.producers.is_empty() || !snapshots(&self.folder)?.is_empty() {
            take_snapshot(&self.folder, &mut writer.producers)?;
        }
        let changed = self.changed.load(Ordering::Acquire);
        let active = segments.last().filter(|_| changed);
        if let Some(active) = active {
            active.finish()?;
        }
        if !flush {
            return Ok(());
        }
        let target = self.published();
        let (created, epochs_changed) = self.take_unflushed();
        let is_behind = self.flushed_offset() < target.end_offset || created;
        if is_behind || epochs_changed || changed {
            // After a clean stop the next start trusts what it finds: the last snapshot and the last indexes too.
            let snapshot = writer.producers.snapshot_offset;
            if snapshot > before && !writer.producers.is_empty() {
                let path = self.folder.file(snapshot, Kind::Snapshot, Suffix::None);
                self.folder.sync_file(&path)?;
            }
            self.sync_to(target, created || snapshot > before, epochs_changed)?;
            match active {
                Some(active) if is_behind => active.sync_indexes()?,
                Some(active) => active.sync_closed()?,
                None => {}
            }
        }
        self.flushed_offset
            .store(target.end_offset, Ordering::Release);
        Ok(())
    }
}

/// A random part of `segment.jitter.ms`, so that logs that were created together do not roll together.
fn jitter_ms(config: &LogConfig) -> i64 {
    use std::hash::{BuildHasher, RandomState};
    let most = config.segment_jitter_ms.min(config.segment_ms);
    if most <= 0 {
        return 0;
    }
    (RandomState::new().hash_one(0) % most as u64) as i64
}

//! Taking away from the end (truncation) and from the beginning (the log start offset).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::error::{Context, LogError, Result};
use super::home::now_ms;
use super::log::{Log, Writer};
use super::names::{Kind, Suffix};
use super::producer_state::ProducerState;
use super::segment::Segment;
use super::snapshots::{load_producers, snapshots};
use crate::records::batch::OFFSET_MAX;

/// A cut of which the disk, or the checkpoint of recovery points, may not know yet.
pub(super) struct Cut {
    /// The segment that is the last one since.
    segment: Arc<Segment>,
}

impl Log {
    /// Cuts off everything at or after `offset`, by whole batches. Also forgets epochs that start there, even if no batch goes: this broker may have
    /// led and appended nothing. True if batches went. `OtherEpoch` if a `leader_epoch` is given and the log is in another one.
    pub fn truncate_to(&self, offset: i64, leader_epoch: Option<i32>) -> Result<bool> {
        self.under_epoch(leader_epoch, |log, writer| {
            let went = log.cut(writer, offset)?;
            log.settle(writer)?;
            Ok(went)
        })
    }

    /// Runs `work` on this log, or on the one that took its place, while nobody else appends, truncates or rolls, if the log is in `leader_epoch`.
    pub(super) fn under_epoch<T>(
        &self,
        leader_epoch: Option<i32>,
        work: impl FnOnce(&Self, &mut Writer) -> Result<T>,
    ) -> Result<T> {
        if let Some(next) = self.successor.get() {
            return next.under_epoch(leader_epoch, work);
        }
        self.check_writable()?;
        let layout = self.layout.lock();
        let mut writer = self.writer();
        if let Some(next) = self.successor.get() {
            // It took this one's place while we waited for the locks.
            drop(writer);
            drop(layout);
            return next.under_epoch(leader_epoch, work);
        }
        // It may have been closed meanwhile, or have changed its role.
        self.check_writable()?;
        self.check_given(leader_epoch)?;
        work(self, &mut writer)
    }

    /// [`truncate_to`](Self::truncate_to) as far as readers see it; what is cut off is [unsettled](Self::settle).
    pub(super) fn cut(&self, writer: &mut Writer, offset: i64) -> Result<bool> {
        self.check_offset(offset)?;
        let end_offset = self.end_offset();
        writer.epoch = -1;
        if offset >= end_offset {
            if self.epochs.write().truncate_from_end(end_offset) {
                self.save_epochs(writer)?;
            }
            return Ok(false);
        }
        let segments = self.segments();
        if segments
            .first()
            .is_none_or(|first| first.base_offset > offset)
        {
            self.start_anew(writer, offset)?;
            return Ok(true);
        }
        let result = self.truncate_segments(writer, offset);
        self.guard(result)?;
        Ok(true)
    }

    /// Refuses an offset that no log has. A leader that does not know an epoch answers with one, and
    /// it is no place to cut at.
    fn check_offset(&self, offset: i64) -> Result<()> {
        if (0..=OFFSET_MAX).contains(&offset) {
            return Ok(());
        }
        let (start, end) = (self.start_offset(), self.end_offset());
        Err(LogError::OffsetOutOfRange { offset, start, end })
    }

    /// Makes a cut durable, and has the checkpoint of recovery points say no more than what is left. Both before anything is written over it: else a power
    /// cut could leave a mixture of old and new batches, or a recovery would begin behind what was written last. Whoever truncates many logs
    /// leaves this for one checkpoint at the end; who comes to write to a log before that does it first.
    #[inline]
    pub(super) fn settle(&self, writer: &mut Writer) -> Result<()> {
        match &writer.unsettled {
            None => Ok(()),
            Some(_) => self.settle_cut(writer),
        }
    }

    #[cold]
    fn settle_cut(&self, writer: &mut Writer) -> Result<()> {
        let Some(cut) = &writer.unsettled else {
            return Ok(());
        };
        self.guard(self.sync_cut(cut))?;
        self.home.recovery_point_moved_back()?;
        writer.unsettled = None;
        Ok(())
    }

    /// The first half: the disk knows of the cut.
    pub(super) fn sync_cut(&self, cut: &Cut) -> Result<()> {
        cut.segment.sync()
    }

    /// Somebody else has done both halves for `cut`. Another cut that came since is as unsettled as it was.
    pub(super) fn note_settled(&self, cut: &Arc<Cut>) {
        let mut writer = self.writer();
        if let Some(last) = &writer.unsettled
            && Arc::ptr_eq(last, cut)
        {
            writer.unsettled = None;
        }
    }

    fn truncate_segments(&self, writer: &mut Writer, offset: i64) -> Result<()> {
        writer.epoch = -1;
        self.changed.store(true, Ordering::Release);
        let segments = self.segments();
        let kept = segments.partition_point(|segment| segment.base_offset <= offset);
        let active = Arc::clone(&segments[kept - 1]);
        let segment = Arc::clone(&active);
        writer.unsettled = Some(Arc::new(Cut { segment }));
        // Readers first: nobody may be told of what is about to go.
        self.note_truncated(offset);
        self.note_cleaned_truncated(active.base_offset);
        self.segments.store(Arc::new(segments[..kept].to_vec()));
        self.remove_from_end(&segments[kept..])?;
        active.truncate_to(offset)?;
        let end_offset = active.next_offset()?.max(self.start_offset().min(offset));
        if self.start_offset.fetch_min(end_offset, Ordering::AcqRel) > end_offset {
            self.home.note_start_moved_back();
        }
        self.publish(end_offset, &active);
        // Batches go whole: the end may be before what was asked for.
        self.flush_due_to.fetch_min(end_offset, Ordering::AcqRel);
        self.flushed_offset.fetch_min(end_offset, Ordering::AcqRel);
        self.high_watermark.fetch_min(end_offset, Ordering::AcqRel);
        self.recount();
        if self.epochs.write().truncate_from_end(end_offset) {
            self.save_epochs(writer)?;
        }
        self.reload_producers(writer, end_offset)
    }

    /// Drops everything and starts anew at `offset`: a follower whose leader's log starts after its own ends. Epochs as in
    /// [`truncate_to`](Self::truncate_to).
    pub fn truncate_fully_and_start_at(
        &self,
        offset: i64,
        leader_epoch: Option<i32>,
    ) -> Result<()> {
        self.under_epoch(leader_epoch, |log, writer| {
            log.start_anew(writer, offset)?;
            log.settle(writer)
        })
    }

    /// [`truncate_fully_and_start_at`](Self::truncate_fully_and_start_at) as far as readers see it; what went is [unsettled](Self::settle).
    pub(super) fn start_anew(&self, writer: &mut Writer, offset: i64) -> Result<()> {
        self.check_offset(offset)?;
        let result = self.drop_all(writer, offset);
        self.guard(result)
    }

    fn drop_all(&self, writer: &mut Writer, offset: i64) -> Result<()> {
        writer.epoch = -1;
        self.changed.store(true, Ordering::Release);
        let segments = self.segments();
        self.note_truncated(offset);
        self.note_cleaned_truncated(offset);
        // Renamed first: the new segment may need the name of an old one.
        self.remove_from_end(&segments)?;
        let active = Segment::create(&self.folder, offset, now_ms(), &self.home.cache)?;
        let segment = Arc::clone(&active);
        writer.unsettled = Some(Arc::new(Cut { segment }));
        self.segments.store(Arc::new(vec![Arc::clone(&active)]));
        self.note_created();
        if self.start_offset.swap(offset, Ordering::AcqRel) > offset {
            self.home.note_start_moved_back();
        }
        self.high_watermark.store(offset, Ordering::Release);
        self.publish(offset, &active);
        self.recount();
        self.flush_due_to.store(0, Ordering::Release);
        self.flushed_offset.store(offset, Ordering::Release);
        self.epochs.write().clear();
        self.save_epochs(writer)?;
        for snapshot in snapshots(&self.folder)? {
            self.remove_snapshot(snapshot)?;
        }
        writer.producers = ProducerState::starting_at(offset);
        self.note_unstable(writer);
        self.folder.sync()
    }

    fn reload_producers(&self, writer: &mut Writer, end_offset: i64) -> Result<()> {
        for snapshot in snapshots(&self.folder)? {
            if snapshot > end_offset {
                self.remove_snapshot(snapshot)?;
            }
        }
        if writer.producers.knows_nobody() {
            // Nor did it before the cut: there is nothing to look for in what may be a large segment.
            writer.producers.end_at(end_offset);
        } else if writer.producers.end_offset != end_offset {
            writer.producers = load_producers(&self.folder, &self.segments(), end_offset)?;
            self.note_unstable(writer);
        }
        Ok(())
    }

    /// Moves the first offset that may be read forward; nothing happens if it is there already. Whole segments before it go at the next
    /// `delete_old_segments`. Beyond the high watermark: `OffsetOutOfRange`.
    ///
    /// Durable only once the directory's start-offset checkpoint is written (`LogDirectory::checkpoint_start_offsets`).
    pub fn set_start_offset(&self, offset: i64) -> Result<bool> {
        let mut writer = self.writer();
        if let Some(next) = self.successor.get() {
            return next.set_start_offset(offset);
        }
        self.check_writable()?;
        let (start, end) = (self.start_offset(), self.high_watermark());
        if offset > end {
            return Err(LogError::OffsetOutOfRange { offset, start, end });
        }
        if offset <= start {
            return Ok(false);
        }
        self.move_start(&mut writer, offset)?;
        Ok(true)
    }

    pub(super) fn move_start(&self, writer: &mut Writer, offset: i64) -> Result<()> {
        self.start_offset.store(offset, Ordering::Release);
        self.high_watermark.fetch_max(offset, Ordering::AcqRel);
        if self.epochs.write().truncate_from_start(offset) {
            self.save_epochs(writer)?;
        }
        for snapshot in snapshots(&self.folder)? {
            if snapshot < offset {
                self.remove_snapshot(snapshot)?;
            }
        }
        Ok(())
    }

    pub(super) fn remove_snapshot(&self, offset: i64) -> Result<()> {
        let path = self.folder.file(offset, Kind::Snapshot, Suffix::None);
        match self.folder.storage.remove_file(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            other => other.context("remove", &path),
        }
    }

    pub(super) fn recount(&self) {
        let size = self
            .segments()
            .iter()
            .map(|segment| segment.size_bytes())
            .sum();
        self.size_bytes.store(size, Ordering::Relaxed);
    }
}

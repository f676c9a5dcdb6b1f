//! Small appends of one turn of the loop, written with one call.
//!
//! A write of a hundred bytes costs the kernel nearly as much as one of ten thousand, and a turn brings dozens of small batches for one
//! partition. So the loop *stages* them: a staged batch is checked, has its offsets, and waits in memory behind those staged before it.
//! Before the turn's answers leave, [`Log::write_staged`] writes all of them and takes them into indexes, producer state and the
//! published end, exactly as one append of many batches.
//!
//! Nothing but `Staged` knows of a staged batch, which is what keeps this simple:
//! * readers, flushes, checkpoints and the high watermark see the published end, and that moves when the write is done;
//! * a write that fails has nothing to undo but its own bytes. What it would have held is *lost*, and nothing is staged behind it before a
//!   turn has ended. Whoever staged it answers with the error: several threads may have, and offsets are given again, so that losses are
//!   counted, each append tells how many there were before it ([`AppendInfo::losses`]), and [`Log::lost`] compares;
//! * whoever takes the writer ([`Log::writer`]: appends on other threads, rolls, truncation, a new epoch, closing) finds nothing staged,
//!   because that writes it first;
//! * what depends on the batch before it is not staged beside it: a second batch of a producer (its sequence number is checked against
//!   the first), a transaction's batches, the first batch of a leader epoch, and whatever starts a segment.

use std::cell::RefCell;
use std::sync::atomic::Ordering;

use super::append::{AppendInfo, Roll};
use super::config::LogConfig;
use super::error::{LogError, Result};
use super::home::now_ms;
use super::log::{Log, Writer};
use super::prepare::Checked;
use super::segment::Segment;
use crate::io::panics::{Held, catching};
use crate::records::BatchHeader;

/// Larger batches are written by themselves: copying them costs more than a system call saves.
const BATCH_BYTES_MAX: usize = 4 << 10;
/// When so much is staged it is written. One write of this size takes about 20 µs.
const BYTES_MAX: usize = 64 << 10;
/// How many losses a log tells apart. An append that is not answered before so many came behind it may be told that it was lost with one of
/// them, never that it was written.
const LOSSES_MAX: usize = 64;
/// Buffers that a thread keeps for the next turn; logs that are idle keep none.
const SPARE_MAX: usize = 16;

#[derive(Default)]
struct Buffers {
    bytes: Vec<u8>,
    /// Each batch with its position in `bytes`.
    batches: Vec<(usize, Checked)>,
}

thread_local! {
    static SPARE: RefCell<Vec<Buffers>> = const { RefCell::new(Vec::new()) };
}

#[derive(Default)]
pub(super) struct Staged {
    buffers: Buffers,
    /// The first offset of what is being written. It is there under the lock only if a panic ended the write.
    writing: Option<i64>,
    /// The newest losses, in their order, with ascending offsets.
    losses: Vec<Loss>,
    /// How many losses there were when a turn ended last.
    told: u64,
}

/// A write that failed.
struct Loss {
    /// Its place among the losses of its log, from 1 on.
    number: u64,
    /// Batches that were staged with this offset or a later one before the write failed are not in
    /// the log.
    from: i64,
    error: LogError,
}

/// The outcome of a turn's appends to one log.
#[derive(Debug)]
pub struct TurnEnd {
    /// The log end offset: everything before it is written.
    pub end_offset: i64,
    /// `flush.messages` records wait for a flush now.
    pub flush_due: bool,
    /// Appends of this turn that got this offset or a later one are not in the log, for this reason. Told to the first turn that ends behind
    /// the loss, to be reported; of a single append [`Log::lost`] says the truth to everybody.
    pub lost: Option<(i64, LogError)>,
    /// How many losses the log has had: appends with as many are not concerned.
    pub losses: u64,
}

impl Staged {
    pub fn end_offset(&self) -> Option<i64> {
        let (_, last) = self.buffers.batches.last()?;
        Some(last.header.last_offset() + 1)
    }

    /// Why nothing may be appended before the turn has ended.
    pub fn check(&self) -> Result<()> {
        match self.losses.last() {
            Some(loss) if loss.number > self.told => Err(loss.error.clone()),
            _ => Ok(()),
        }
    }

    fn note(&mut self, loss: Loss) {
        // Whom one of those concerned this one concerns too.
        self.losses.retain(|before| before.from < loss.from);
        self.losses.push(loss);
        if self.losses.len() > LOSSES_MAX {
            let oldest = self.losses.remove(0);
            self.losses[0].from = oldest.from;
        }
    }

    /// The losses behind the first `count`.
    fn losses_since(&self, count: u64) -> impl Iterator<Item = &Loss> {
        self.losses.iter().filter(move |loss| loss.number > count)
    }

    fn has_producer(&self, producer_id: i64) -> bool {
        let mut batches = self.buffers.batches.iter();
        batches.any(|(_, batch)| batch.header.producer_id == producer_id)
    }
}

impl Log {
    /// The writer, with nothing staged: for everyone but the loop's own appends.
    pub(super) fn writer(&self) -> Held<'_, Writer> {
        let mut writer = self.writer.lock();
        self.write_staged_by(&mut writer);
        writer
    }

    /// True if a batch of `bytes` may wait for the end of the turn.
    pub(super) fn may_stage(
        &self,
        writer: &Writer,
        bytes: usize,
        header: &BatchHeader,
        active: &Segment,
        config: &LogConfig,
        now_ms: i64,
    ) -> Result<bool> {
        let staged = &writer.staged;
        let all = staged.buffers.bytes.len() + bytes;
        let alone = bytes > BATCH_BYTES_MAX
            || all > BYTES_MAX
            || header.leader_epoch != writer.epoch
            || header.is_transactional()
            || header.is_control()
            || header.has_producer_id() && staged.has_producer(header.producer_id);
        let next = staged.end_offset().unwrap_or_else(|| self.end_offset());
        Ok(!alone
            && !active.should_roll(
                all,
                staged.buffers.batches.len(),
                header.max_timestamp,
                next + i64::from(header.last_offset_delta),
                config,
                writer.jitter_ms,
                now_ms,
            )?)
    }

    pub(super) fn stage(&self, writer: &mut Writer, bytes: &[u8], batch: Checked) {
        let buffers = &mut writer.staged.buffers;
        if buffers.batches.is_empty()
            && let Some(spare) = SPARE.with_borrow_mut(Vec::pop)
        {
            *buffers = spare;
        }
        buffers.batches.push((buffers.bytes.len(), batch));
        buffers.bytes.extend_from_slice(bytes);
        self.has_staged.store(true, Ordering::Release);
    }

    /// Ends a turn: writes what was staged, and tells what could not be written since a turn ended last.
    pub fn write_staged(&self) -> TurnEnd {
        self.write_staged_since(u64::MAX)
    }

    /// The same, and tells also what could not be written behind the first `losses`: what a turn appended is told to it even if another one
    /// has heard of the loss. Nothing that was appended in the turn may be acknowledged where the write ended with a panic: that is a loss
    /// too.
    pub fn write_staged_since(&self, losses: u64) -> TurnEnd {
        let lost = catching(|| self.write_and_tell(losses));
        let lost = lost.unwrap_or_else(|_| self.write_and_tell(losses));
        let end_offset = self.end_offset();
        TurnEnd {
            end_offset,
            flush_due: self.is_flush_due(&self.config(), end_offset),
            lost,
            losses: self.losses.load(Ordering::Acquire),
        }
    }

    fn write_and_tell(&self, losses: u64) -> Option<(i64, LogError)> {
        // Another thread may have written it and hold the writer for long: then there is nothing to wait for.
        if !self.has_staged.load(Ordering::Acquire) && self.losses.load(Ordering::Acquire) <= losses
        {
            return None;
        }
        let mut writer = self.writer.lock();
        self.write_staged_by(&mut writer);
        let staged = &mut writer.staged;
        let since = losses.min(staged.told);
        let from = staged.losses_since(since).map(|loss| loss.from).min();
        let error = staged.losses_since(since).last();
        let lost = from.zip(error.map(|loss| loss.error.clone()));
        staged.told = self.losses.load(Ordering::Relaxed);
        self.has_staged.store(false, Ordering::Release);
        lost
    }

    /// Why the batch of an append with [`When::InTurn`](super::When::InTurn) is not in the log, although the append went well. None is true
    /// from the first [`write_staged`](Log::write_staged) behind the append on, whoever called it.
    pub fn lost(&self, info: &AppendInfo) -> Option<LogError> {
        if self.losses.load(Ordering::Acquire) <= info.losses {
            return None;
        }
        let writer = self.writer.lock();
        let mut losses = writer.staged.losses_since(info.losses);
        // A duplicate was written before, so its offset is lower.
        let loss = losses.find(|loss| loss.from <= info.base_offset);
        loss.map(|loss| loss.error.clone())
    }

    fn lose(&self, writer: &mut Writer, from: i64, error: LogError) {
        let number = self.losses.load(Ordering::Relaxed) + 1;
        writer.staged.note(Loss {
            number,
            from,
            error,
        });
        self.losses.store(number, Ordering::Release);
    }

    #[inline]
    pub(super) fn write_staged_by(&self, writer: &mut Writer) {
        if !writer.staged.buffers.batches.is_empty() || writer.staged.writing.is_some() {
            self.write_all_staged(writer);
        }
    }

    fn write_all_staged(&self, writer: &mut Writer) {
        if let Some(from) = writer.staged.writing.take() {
            let broken = self.check_whole().err();
            let error = broken.unwrap_or_else(|| LogError::Closed(self.partition.to_string()));
            self.lose(writer, from, error);
        }
        let Some((_, first)) = writer.staged.buffers.batches.first() else {
            return;
        };
        let (from, epoch) = (first.header.base_offset, first.header.leader_epoch);
        let mut buffers = std::mem::take(&mut writer.staged.buffers);
        writer.staged.writing = Some(from);
        // The role may have changed since.
        let may_write = self
            .check_whole()
            .and_then(|()| self.check_epoch(epoch).map(drop));
        let written = may_write.and_then(|()| {
            let (bytes, batches) = (&buffers.bytes, &buffers.batches);
            let active = self.active()?;
            self.write(
                writer,
                active,
                bytes,
                batches,
                &self.config(),
                now_ms(),
                Roll::Decided,
            )
        });
        writer.staged.writing = None;
        match written {
            Ok(_) => self.has_staged.store(false, Ordering::Release),
            Err(error) => self.lose(writer, from, error),
        }
        buffers.bytes.clear();
        buffers.batches.clear();
        SPARE.with_borrow_mut(|spare| {
            if spare.len() < SPARE_MAX {
                spare.push(buffers);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::log::append::When;
    use crate::log::log::OpenMode;
    use crate::log::opening::Hints;
    use crate::log::tests::{append, batch};
    use crate::log::verification::NO_GUARD;
    use crate::log::{AppendInfo, AppendOrigin, Home};
    use crate::records::{BatchBuilder, BatchOptions, Batches};
    use crate::storage::faulty::{Fault, Operation};
    use crate::storage::{FaultyStorage, Storage};

    fn log(config: LogConfig) -> (FaultyStorage, Arc<Log>) {
        let storage = FaultyStorage::new();
        storage.create_directory("/t-0".as_ref()).unwrap();
        let home = Home::quiet(Arc::new(storage.clone()), Path::new("/"));
        let hints = Hints {
            clean: true,
            ..Hints::default()
        };
        let log = Log::open(&home, "t-0", config, hints, OpenMode::Append).unwrap();
        log.begin_epoch(0).unwrap();
        (storage, log)
    }

    fn numbered(producer_id: i64, base_sequence: i32) -> Vec<u8> {
        let options = BatchOptions {
            producer_id,
            producer_epoch: 0,
            base_sequence,
            ..BatchOptions::default()
        };
        let mut builder = BatchBuilder::new(options);
        builder.append(1000, None, Some(b"v"), &[]).unwrap();
        builder.finish().unwrap()
    }

    fn in_turn(log: &Arc<Log>, batch: Vec<u8>) -> Result<AppendInfo> {
        let mut batch = batch;
        log.try_append(
            &mut batch,
            0,
            AppendOrigin::Client,
            NO_GUARD,
            1000,
            When::InTurn,
        )
        .unwrap()
    }

    /// The base offsets of all batches.
    fn offsets(log: &Log) -> Vec<i64> {
        let mut offsets = Vec::new();
        let mut next = 0;
        while let Some(slice) = log.read(next, 1 << 20, i64::MAX, true).unwrap().slice {
            for found in Batches::new(&slice.read().unwrap()) {
                let header = found.unwrap().header;
                offsets.push(header.base_offset);
                next = header.last_offset() + 1;
            }
        }
        offsets
    }

    #[test]
    fn a_turn_is_one_write_and_seen_when_it_is_done() {
        let (storage, log) = log(LogConfig::default());
        let second = Fault::Fail(ErrorKind::Other);
        storage.break_at(Some(Operation::Write), 1, second, true);
        let values: &[&[&str]] = &[&["a", "b"], &["c"], &["d"]];
        for (values, base_offset) in values.iter().zip([0, 2, 3]) {
            let info = in_turn(&log, batch(values, 1000)).unwrap();
            assert_eq!(info.base_offset, base_offset);
        }
        assert_eq!((log.end_offset(), log.size_bytes()), (0, 0));
        assert!(!log.advance_high_watermark());
        let end = log.write_staged();
        assert!(end.lost.is_none());
        assert_eq!(end.end_offset, 4);
        assert_eq!(offsets(&log), [0, 2, 3]);
        assert!(log.advance_high_watermark());
        assert_eq!(log.high_watermark(), 4);
        assert!(log.write_staged().lost.is_none());
    }

    #[test]
    fn what_cannot_be_written_was_never_there() {
        for fault in [Fault::Full, Fault::Fail(ErrorKind::StorageFull)] {
            let (storage, log) = log(LogConfig {
                index_interval_bytes: 1,
                ..LogConfig::default()
            });
            append(&log, &["a"], 1000);
            let before = (log.size_bytes(), log.published());
            storage.break_at(Some(Operation::Write), 0, fault, false);
            for sequence in [0, 4] {
                let info = in_turn(&log, numbered(i64::from(sequence), 0)).unwrap();
                assert!(info.base_offset > 0);
            }
            in_turn(&log, batch(&["young"], 5000)).unwrap();
            let (from, error) = log.write_staged().lost.unwrap();
            assert_eq!((from, error.code()), (1, 56));
            assert_eq!((log.size_bytes(), log.published()), before);
            assert!(log.producers().is_empty());
            assert!(log.offset_for_timestamp(5000).unwrap().is_none());
            let segment = log.active().unwrap();
            assert_eq!(segment.offset_index.len().unwrap(), 0);
            assert_eq!(segment.file.file().unwrap().length().unwrap(), before.0);
            assert!(log.home.is_slow(), "the next one runs on an I/O thread");
            // The disk has room again.
            let info = in_turn(&log, numbered(0, 0)).unwrap();
            assert_eq!((info.base_offset, info.is_duplicate), (1, false));
            assert!(log.write_staged().lost.is_none());
            assert_eq!(offsets(&log), [0, 1]);
        }
    }

    #[test]
    fn nothing_is_appended_behind_what_was_lost() {
        let (storage, log) = log(LogConfig::default());
        append(&log, &["a"], 1000);
        in_turn(&log, batch(&["b"], 1000)).unwrap();
        storage.break_at(Some(Operation::Write), 0, Fault::Full, false);
        // Another thread takes the writer, which writes what was staged.
        log.expire_producers(0);
        log.roll().unwrap();
        assert_eq!(
            in_turn(&log, batch(&["c"], 1000)).unwrap_err().code(),
            56,
            "it would get the lost one's offset"
        );
        assert_eq!(log.write_staged().lost.unwrap().0, 1);
        assert_eq!(in_turn(&log, batch(&["d"], 1000)).unwrap().base_offset, 1);
        assert!(log.write_staged().lost.is_none());
    }

    #[test]
    fn everybody_who_appended_hears_of_a_loss() {
        let (storage, log) = log(LogConfig::default());
        append(&log, &["a"], 1000);
        let before = in_turn(&log, batch(&["b"], 1000)).unwrap();
        assert!(log.write_staged().lost.is_none());
        let first = in_turn(&log, batch(&["c"], 1000)).unwrap();
        let second = in_turn(&log, batch(&["d"], 1000)).unwrap();
        storage.break_at(Some(Operation::Write), 0, Fault::Full, false);
        assert_eq!(log.write_staged().lost.unwrap().0, 2);
        // Another turn gets the offsets, and loses nothing.
        let again = in_turn(&log, batch(&["e"], 1000)).unwrap();
        assert_eq!(again.base_offset, first.base_offset);
        assert!(log.write_staged().lost.is_none());
        for lost in [&first, &second] {
            assert_eq!(log.lost(lost).map(|error| error.code()), Some(56));
            let end = log.write_staged_since(lost.losses);
            assert_eq!((end.lost.unwrap().0, end.losses), (2, 1));
        }
        assert!(log.lost(&before).is_none() && log.lost(&again).is_none());
        assert!(log.write_staged_since(again.losses).lost.is_none());
        // A later loss concerns neither, though the first one was of the offset that `again` has.
        let third = in_turn(&log, batch(&["f"], 1000)).unwrap();
        storage.break_at(Some(Operation::Write), 0, Fault::Full, false);
        assert_eq!(log.write_staged().lost.unwrap().0, 3);
        assert!(log.lost(&before).is_none() && log.lost(&again).is_none());
        assert!(log.lost(&first).is_some() && log.lost(&third).is_some());
    }

    #[test]
    fn a_loss_is_known_behind_many_others() {
        let (storage, log) = log(LogConfig::default());
        append(&log, &["a"], 1000);
        let kept = in_turn(&log, batch(&["b"], 1000)).unwrap();
        assert!(log.write_staged().lost.is_none());
        let lost: Vec<_> = (0..3 * LOSSES_MAX)
            .map(|_| {
                let info = in_turn(&log, batch(&["c"], 1000)).unwrap();
                storage.break_at(Some(Operation::Write), 0, Fault::Full, false);
                assert!(log.write_staged().lost.is_some());
                append(&log, &["d"], 1000);
                info
            })
            .collect();
        assert!(lost.iter().all(|info| log.lost(info).is_some()));
        assert!(log.lost(&kept).is_none());
        assert!(log.writer.lock().staged.losses.len() <= LOSSES_MAX);
    }

    #[test]
    fn what_a_panic_kept_from_being_written_is_lost() {
        let (storage, log) = log(LogConfig::default());
        append(&log, &["a"], 1000);
        let info = in_turn(&log, batch(&["b"], 1000)).unwrap();
        storage.break_at(Some(Operation::Write), 0, Fault::Panic, false);
        assert_eq!(log.write_staged().lost.unwrap().0, 1);
        assert!(log.is_broken());
        assert!(log.lost(&info).is_some());
        assert!(log.write_staged_since(info.losses).lost.is_some());
    }

    #[test]
    fn sequence_numbers_are_checked_within_a_turn() {
        let (_, log) = log(LogConfig::default());
        append(&log, &["a"], 1000);
        assert_eq!(in_turn(&log, numbered(7, 0)).unwrap().base_offset, 1);
        let again = in_turn(&log, numbered(7, 0)).unwrap();
        assert_eq!((again.base_offset, again.is_duplicate), (1, true));
        assert_eq!(in_turn(&log, numbered(7, 1)).unwrap().base_offset, 2);
        assert_eq!(in_turn(&log, numbered(7, 5)).unwrap_err().code(), 45);
        assert_eq!(log.write_staged().end_offset, 3);
        assert_eq!(offsets(&log), [0, 1, 2]);
    }

    #[test]
    fn a_role_change_refuses_what_was_staged() {
        let (_, log) = log(LogConfig::default());
        append(&log, &["a"], 1000);
        in_turn(&log, batch(&["b"], 1000)).unwrap();
        log.begin_epoch(1).unwrap();
        let (from, error) = log.write_staged().lost.unwrap();
        assert_eq!((from, error.code()), (1, 6));
        assert_eq!(log.epoch_of(0), 0);
        assert_eq!(log.epoch_end_offset(0), Some((0, 1)));
        assert_eq!(offsets(&log), [0]);
    }

    #[test]
    fn other_threads_find_what_was_staged_in_the_log() {
        let (_, log) = log(LogConfig::default());
        append(&log, &["a"], 1000);
        in_turn(&log, batch(&["b"], 1000)).unwrap();
        assert_eq!(append(&log, &["c"], 1000).base_offset, 2);
        in_turn(&log, batch(&["d"], 1000)).unwrap();
        assert!(log.truncate_to(3, None).unwrap());
        assert_eq!(log.end_offset(), 3);
        in_turn(&log, batch(&["e"], 1000)).unwrap();
        log.close(true).unwrap();
        assert!(log.write_staged().lost.is_none());
        assert_eq!(log.end_offset(), 4);
        assert_eq!(log.flushed_offset(), 4);
    }

    #[test]
    fn segments_end_where_they_would_without_turns() {
        let config = || LogConfig {
            segment_bytes: 500,
            segment_index_bytes: 40,
            index_interval_bytes: 1,
            ..LogConfig::default()
        };
        let ((_, one), (_, many)) = (log(config()), log(config()));
        for value in 0..200 {
            let value = "x".repeat(value % 50);
            append(&one, &[&value], 1000);
            let mut bytes = batch(&[&value], 1000);
            if many
                .try_append(
                    &mut bytes,
                    0,
                    AppendOrigin::Client,
                    NO_GUARD,
                    1000,
                    When::InTurn,
                )
                .is_none()
            {
                many.append(&mut bytes, 0, AppendOrigin::Client, 1000)
                    .unwrap();
            }
        }
        assert!(many.write_staged().lost.is_none());
        let bases = |log: &Log| -> Vec<i64> {
            let segments = log.segments();
            segments.iter().map(|one| one.base_offset).collect()
        };
        assert!(bases(&one).len() > 20);
        assert_eq!(offsets(&many), offsets(&one));
        for segment in many.segments().iter() {
            assert!(segment.size_bytes() <= 500);
            assert!(segment.offset_index.len().unwrap() <= 5);
        }
    }
}

//! Appending: check, give offsets, write, note, publish; in that order, so that a failure leaves the log as it was.
//!
//! The checks only read the records. Offsets and timestamps are put into them last ([`stamp`]), and are taken out again
//! if the write fails or may not run here: the next one to append the same bytes finds them as they came.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::config::{LogConfig, TimestampType};
use super::error::{LogError, Result};
use super::home::coarse_now;
use super::log::{ANY_EPOCH, Log, Writer};
use super::prepare::{Checked, Messages, Prepared, prepare};
pub use super::producer_state::AppendOrigin;
use super::rewrite::is_plain;
use super::segment::{AppendFailure, Segment};
use super::transaction_index::AbortedEntry;
use super::verification::NO_GUARD;
use crate::records::batch::{MAGIC, Unstamped, is_offset};
use crate::records::{set_max_timestamp, stamp};
use crate::traffic::Count;

/// The outcome of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppendInfo {
    /// The first record's offset; of a duplicate, what the first append of it gave.
    pub base_offset: i64,
    pub last_offset: i64,
    /// The time the log gave to the batch; -1 if it keeps the producer's.
    pub append_time_ms: i64,
    pub log_start_offset: i64,
    /// The batch was in the log already: nothing was written.
    pub is_duplicate: bool,
    /// `flush.messages` records wait for a flush now.
    pub flush_due: bool,
    /// How many losses the log had had before: see [`Log::lost`].
    pub losses: u64,
}

/// The freedom of an append, by the thread on which it runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// Anything: it is done when it returns.
    Now,
    /// On the loop's thread: the append may not start a segment, for whatever reason one is needed.
    Quick,
    /// As `Quick`, and the write may be left to the end of the turn.
    InTurn,
}

/// The way in which [`Log::write`] treats batches that belong into a new segment.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Roll {
    /// Starts the segment, which waits for the disk.
    Start,
    /// Writes nothing.
    Refuse,
    /// Writes to the active segment: staged batches were compared with its limits when they were staged.
    Decided,
}

impl Roll {
    fn of(when: When) -> Self {
        match when {
            When::Now => Self::Start,
            When::Quick | When::InTurn => Self::Refuse,
        }
    }
}

impl Log {
    /// Appends one batch as leader: gives it offsets, `leader_epoch` and, on a topic with log append time, `now_ms`, in place.
    ///
    /// Refused, with nothing changed: another epoch than the log's, a damaged or too large batch, timestamps out of range, a record without
    /// key on a compacted topic, a sequence number that does not follow. A batch that is one of its producer's last five is answered with
    /// the first append's offsets. After an error of the disk the file is as long as before; if it cannot be made so, the whole
    /// directory goes out of use.
    pub fn append(
        &self,
        records: &mut [u8],
        leader_epoch: i32,
        origin: AppendOrigin,
        now_ms: i64,
    ) -> Result<AppendInfo> {
        self.append_with(records, leader_epoch, origin, NO_GUARD, now_ms)
    }

    /// As [`append`](Self::append), with the guard of a [verification](super::verification).
    pub fn append_with(
        &self,
        records: &mut [u8],
        leader_epoch: i32,
        origin: AppendOrigin,
        guard: u64,
        now_ms: i64,
    ) -> Result<AppendInfo> {
        if let Some(next) = self.successor.get() {
            return next.append_with(records, leader_epoch, origin, guard, now_ms);
        }
        let mut writer = self.writer();
        let info = self.append_in(
            &mut writer,
            records,
            leader_epoch,
            origin,
            guard,
            now_ms,
            When::Now,
        )?;
        info.ok_or_else(|| LogError::Closed(self.partition.to_string()))
    }

    /// None, with nothing appended and nothing staged, if a new segment would have to be started, or the records take long to unpack or to
    /// pack, and that may not be. After None and after an error `records` are as they came.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn append_in(
        &self,
        writer: &mut Writer,
        records: &mut [u8],
        leader_epoch: i32,
        origin: AppendOrigin,
        guard: u64,
        now_ms: i64,
        when: When,
    ) -> Result<Option<AppendInfo>> {
        if let Some(next) = self.successor.get() {
            // It took this one's place while we waited for the lock.
            let info = next.append_with(records, leader_epoch, origin, guard, now_ms)?;
            return Ok(Some(info));
        }
        self.check_writable()?;
        let (config, mut active) = (self.config.load(), self.active()?);
        if when != When::Now {
            writer.staged.check()?;
        }
        let leader_epoch = self.check_epoch(leader_epoch)?;
        if when != When::Now && !is_plain(records, &config) {
            // Messages have their offsets in them: what is staged goes first.
            self.write_staged_by(writer);
            writer.staged.check()?;
            active = self.active()?;
        }
        let is_quick = when != When::Now;
        let mut end_offset = self.end_offset();
        let mut rewritten;
        let mut is_converted = false;
        let mut records = records;
        let mut checked = match prepare(records, &config, origin, now_ms, end_offset, is_quick)? {
            Prepared::Kept(checked) => checked,
            Prepared::Batch(batch, checked) => {
                is_converted = true;
                rewritten = batch;
                records = &mut rewritten;
                checked
            }
            Prepared::Messages(messages) => {
                // What came in the topic's format has got offsets, nothing else.
                let is_same = records.len() == messages.bytes.len()
                    && records.get(MAGIC) == messages.bytes.get(MAGIC);
                let info = self.append_messages(writer, &messages, &config, now_ms, when)?;
                if let Some(info) = info.as_ref().filter(|_| !is_same) {
                    self.converted(info);
                }
                return Ok(info);
            }
            Prepared::TooMuch => {
                self.write_staged_by(writer);
                writer.staged.check()?;
                return Ok(None);
            }
        };
        let header = &mut checked.header;
        header.leader_epoch = leader_epoch;
        let stage = when == When::InTurn
            && self.may_stage(writer, records.len(), header, &active, &config, now_ms)?;
        if !stage && when != When::Now {
            self.write_staged_by(writer);
            writer.staged.check()?;
            active = self.active()?;
            end_offset = self.end_offset();
        }
        let mut info = AppendInfo {
            base_offset: writer.staged.end_offset().unwrap_or(end_offset),
            last_offset: 0,
            append_time_ms: -1,
            log_start_offset: self.start_offset(),
            is_duplicate: false,
            flush_due: false,
            losses: self.losses.load(Ordering::Relaxed),
        };
        if !is_offset(info.base_offset) {
            let problem = format!("the log ends at {}: no offset is left", info.base_offset);
            return Err(LogError::InvalidRecord(problem));
        }
        if header.has_producer_id() {
            if origin == AppendOrigin::Client
                && let Some(first) = writer.producers.duplicate_of(header)
            {
                info.base_offset = first.first_offset();
                info.last_offset = first.last_offset;
                info.append_time_ms = match config.message_timestamp_type {
                    TimestampType::CreateTime => -1,
                    TimestampType::LogAppendTime => first.timestamp_ms,
                };
                info.is_duplicate = true;
                return Ok(Some(info));
            }
            let is_client = origin == AppendOrigin::Client;
            if is_client && config.verify_transactions && header.is_transactional() {
                self.check_verified(&writer.producers, header.producer_id, guard)?;
            }
            match &checked.marker {
                Some(marker) => writer.producers.check_marker(header, marker)?,
                None => writer.producers.check(header, origin)?,
            }
            if is_client {
                self.verifications.lock().check_sequence(header)?;
            }
        }
        self.check_size(records.len(), &config)?;
        let unstamped = Unstamped::of(records);
        if config.message_timestamp_type == TimestampType::LogAppendTime {
            info.append_time_ms = now_ms;
            header.max_timestamp = now_ms;
            stamp(records, info.base_offset, leader_epoch, Some(now_ms));
        } else {
            stamp(records, info.base_offset, leader_epoch, None);
            if checked.corrects_max_timestamp {
                set_max_timestamp(records, header.max_timestamp);
            }
        }
        header.base_offset = info.base_offset;
        info.last_offset = header.last_offset();
        if stage {
            self.stage(writer, records, checked);
        } else {
            let roll = Roll::of(when);
            let written = self.write(
                writer,
                active,
                records,
                &[(0, checked)],
                &config,
                now_ms,
                roll,
            );
            if !matches!(written, Ok(true)) {
                unstamped.restore(records);
            }
            if !written? {
                return Ok(None);
            }
        }
        self.traffic
            .appended(info.last_offset + 1 - info.base_offset, records.len());
        if is_converted {
            self.converted(&info);
        }
        info.flush_due = self.is_flush_due(&config, info.last_offset + 1);
        Ok(Some(info))
    }

    fn converted(&self, info: &AppendInfo) {
        let records = info.last_offset + 1 - info.base_offset;
        let records = u64::try_from(records).unwrap_or(0);
        self.traffic.add(Count::ProduceConversions, records);
    }

    /// Refuses what was meant for another leader epoch, or the epoch of another term. Returns the epoch under which it is appended.
    pub(super) fn check_epoch(&self, leader_epoch: i32) -> Result<i32> {
        let current = self.expected_epoch.load(Ordering::Acquire);
        if current == ANY_EPOCH || current == leader_epoch {
            return Ok(leader_epoch);
        }
        if leader_epoch < current && leader_epoch >= self.led_since.load(Ordering::Acquire) {
            return Ok(current);
        }
        Err(LogError::OtherEpoch {
            given: leader_epoch,
            current,
        })
    }

    /// Refuses what a producer sent if no segment may hold it.
    fn check_size(&self, bytes: usize, config: &LogConfig) -> Result<()> {
        if bytes as u64 > u64::from(config.segment_bytes) {
            return Err(LogError::LargerThanSegment {
                bytes,
                bytes_max: config.segment_bytes,
            });
        }
        Ok(())
    }

    /// Messages that have their offsets; nothing but their checks is behind them. None as in `append_in`.
    fn append_messages(
        &self,
        writer: &mut Writer,
        messages: &Messages,
        config: &LogConfig,
        now_ms: i64,
        when: When,
    ) -> Result<Option<AppendInfo>> {
        let active = self.active()?;
        let base_offset = self.end_offset();
        let last = messages.batches.last();
        let last_offset = last.map_or(base_offset - 1, |(_, last)| last.header.last_offset());
        let is_append_time = config.message_timestamp_type == TimestampType::LogAppendTime;
        self.check_size(messages.bytes.len(), config)?;
        if !self.write(
            writer,
            active,
            &messages.bytes,
            &messages.batches,
            config,
            now_ms,
            Roll::of(when),
        )? {
            return Ok(None);
        }
        self.traffic
            .appended(last_offset + 1 - base_offset, messages.bytes.len());
        Ok(Some(AppendInfo {
            base_offset,
            last_offset,
            append_time_ms: if is_append_time { now_ms } else { -1 },
            log_start_offset: self.start_offset(),
            is_duplicate: false,
            flush_due: self.is_flush_due(config, last_offset + 1),
            losses: self.losses.load(Ordering::Relaxed),
        }))
    }

    /// Writes checked and stamped batches to the end of the `active` segment, or to the next, then takes them into everything that knows the
    /// log's content. What does not fit into any segment gets one of its own. False, with nothing done, if they belong into a new segment and `roll` refuses that.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn write(
        &self,
        writer: &mut Writer,
        mut active: Arc<Segment>,
        bytes: &[u8],
        batches: &[(usize, Checked)],
        config: &LogConfig,
        now_ms: i64,
        roll: Roll,
    ) -> Result<bool> {
        let (Some((_, first)), Some((_, last))) = (batches.first(), batches.last()) else {
            return Ok(true);
        };
        self.settle(writer)?;
        let last_offset = last.header.last_offset();
        let max_timestamp = batches
            .iter()
            .map(|(_, batch)| batch.header.max_timestamp)
            .max()
            .unwrap_or(-1);
        // The header of a message set has its last offset alone: a segment may not start behind its first.
        let starts_at = if first.header.is_message() {
            self.end_offset()
        } else {
            first.header.base_offset
        };
        if roll != Roll::Decided
            && active.should_roll(
                bytes.len(),
                0,
                max_timestamp,
                last_offset,
                config,
                writer.jitter_ms,
                now_ms,
            )?
        {
            if roll == Roll::Refuse {
                return Ok(false);
            }
            active = self.guard(self.roll_at(writer, starts_at, now_ms))?;
        }
        for (_, batch) in batches {
            if batch.header.is_message() {
                self.clear_epochs(writer)?;
            } else if batch.header.leader_epoch != writer.epoch {
                self.assign_epoch(writer, batch.header.leader_epoch, batch.header.base_offset)?;
            }
        }
        self.changed.store(true, Ordering::Release);
        // Before its marker: a reader who sees the marker must find what was aborted.
        let aborted = match batches {
            [(_, only)] => writer.producers.aborted_by(&only.header, only.marker),
            _ => None,
        };
        if let Some(entry) = aborted {
            let result = self.note_aborted(&active, entry);
            self.guard(result)?;
        }
        let started = coarse_now();
        let headers = |at: &(usize, Checked)| (at.0, at.1.header);
        let written = match batches {
            [only] => active.append(bytes, &[headers(only)], config),
            all => active.append(bytes, &all.iter().map(headers).collect::<Vec<_>>(), config),
        };
        if let Err(failure) = written {
            if let Some(entry) = aborted
                && let Err(error) = active.transaction_index.truncate_to(entry.last_offset)
            {
                self.home.fail(&error);
            }
            self.home.note_failed_write();
            return Err(self.append_failed(failure));
        }
        self.home
            .note_write(bytes.len(), coarse_now().saturating_sub(started));
        self.size_bytes
            .fetch_add(bytes.len() as u64, Ordering::Relaxed);
        if let Err(error) = self.note(writer, batches, &active) {
            // The batches are there, and what was aborted is not known: the next recovery finds out.
            self.home.fail(&error);
            return Err(error);
        }
        self.flush_later(config);
        Ok(true)
    }

    fn note(
        &self,
        writer: &mut Writer,
        batches: &[(usize, Checked)],
        active: &Segment,
    ) -> Result<()> {
        let mut ended = false;
        for (_, batch) in batches {
            // Of one batch alone that was noted before it was written.
            if batches.len() > 1
                && let Some(entry) = writer.producers.aborted_by(&batch.header, batch.marker)
            {
                self.note_aborted(active, entry)?;
            }
            writer.producers.update(&batch.header, batch.marker);
            if batch.header.is_transactional() {
                self.verifications.lock().end(batch.header.producer_id);
            }
            ended |= batch.marker.is_some();
        }
        if ended {
            // Or they would gather where nobody asks for the last stable offset.
            writer.producers.on_high_watermark(self.high_watermark());
        }
        self.note_unstable(writer);
        self.publish(writer.producers.end_offset, active);
        Ok(())
    }

    fn note_aborted(&self, active: &Segment, entry: AbortedEntry) -> Result<()> {
        if active.transaction_index.append(entry)? {
            self.note_created();
        }
        self.has_aborted.store(true, Ordering::Release);
        Ok(())
    }

    fn append_failed(&self, failure: AppendFailure) -> LogError {
        if !failure.undone || self.home.is_failure(&failure.error) {
            self.home.fail(&failure.error);
        }
        failure.error
    }
}

//! Transactions in a log: what readers of committed records must leave out, and the markers that end them.
//!
//! **Aborted transactions** of a read are those that have batches in exactly what was read: their markers may be far behind it, so the segments'
//! [transaction indexes](super::transaction_index) are asked from the read on, until one says that nothing older was open.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::append::{AppendInfo, AppendOrigin, When};
use super::error::{LogError, Result};
use super::files::FileSlice;
use super::log::Log;
use super::producer_state::{Producer, ProducerState};
use super::read::ReadInfo;
use super::scan::{LOOKUP_BYTES, Reach, Scan};
use super::segment::Segment;
use super::transaction_index::AbortedEntry;
use super::verification::NO_GUARD;
use crate::records::Marker;

/// What is known of a producer (`DescribeProducers`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerInfo {
    pub producer_id: i64,
    pub epoch: i16,
    /// -1 if only a marker of it is known.
    pub last_sequence: i32,
    pub last_timestamp_ms: i64,
    /// -1 before the first marker.
    pub coordinator_epoch: i32,
    pub transaction_start: Option<i64>,
}

impl Log {
    /// Writes the marker that ends the producer's transaction here, as [`append_or_queue`](Self::append_or_queue) does. Refused: an epoch of the
    /// producer, or of its coordinator, that is older than one seen before.
    pub fn append_marker(
        self: &Arc<Self>,
        (producer_id, producer_epoch): (i64, i16),
        marker: Marker,
        leader_epoch: i32,
        now_ms: i64,
        done: impl FnOnce(Result<AppendInfo>) + Send + 'static,
    ) -> Result<Option<AppendInfo>> {
        let batch = marker.batch(producer_id, producer_epoch, now_ms)?;
        self.append_or_queue(
            When::Quick,
            batch,
            leader_epoch,
            AppendOrigin::Coordinator,
            NO_GUARD,
            now_ms,
            done,
        )
    }

    /// The guard with which a transactional batch must be appended if it would begin a transaction, else `NO_GUARD`: see
    /// [`verification`](super::verification). Never waits: while the log is being written to, a guard is given that may not be needed.
    pub fn begin_verification(
        &self,
        (producer_id, epoch): (i64, i16),
        sequence: i32,
        now_ms: i64,
    ) -> u64 {
        if let Some(next) = self.successor.get() {
            return next.begin_verification((producer_id, epoch), sequence, now_ms);
        }
        let writer = self.writer.try_lock();
        if writer.is_some_and(|writer| writer.producers.has_open_transaction(producer_id)) {
            return NO_GUARD;
        }
        let mut verifications = self.verifications.lock();
        verifications.begin(producer_id, epoch, sequence, now_ms)
    }

    /// The coordinator says that the producer's transaction does not have this partition.
    pub fn refuse_verification(&self, producer_id: i64, guard: u64) {
        self.verifications.lock().refuse(producer_id, guard);
    }

    pub(super) fn check_verified(
        &self,
        producers: &ProducerState,
        producer_id: i64,
        guard: u64,
    ) -> Result<()> {
        if producers.has_open_transaction(producer_id)
            || self.verifications.lock().is_current(producer_id, guard)
        {
            return Ok(());
        }
        Err(LogError::InvalidTransactionState {
            producer_id,
            problem: "the batch is not part of an open transaction",
        })
    }

    /// The producers that the log remembers, by id. Waits while somebody else writes.
    pub fn producers(&self) -> Vec<ProducerInfo> {
        let writer = self.writer.lock();
        let info = |(producer_id, producer): (i64, &Producer)| ProducerInfo {
            producer_id,
            epoch: producer.epoch,
            last_sequence: producer.last_sequence(),
            last_timestamp_ms: producer.last_timestamp_ms,
            coordinator_epoch: producer.coordinator_epoch,
            transaction_start: producer.transaction_start,
        };
        let mut infos: Vec<_> = writer.producers.producers().map(info).collect();
        drop(writer);
        infos.sort_unstable_by_key(|info| info.producer_id);
        infos
    }

    /// The aborted transactions that have batches in what `read` gave for `offset`, in the order of their markers.
    pub fn aborted_transactions(&self, offset: i64, read: &ReadInfo) -> Result<Vec<AbortedEntry>> {
        self.aborted_within(Reach::Disk, offset, read)
    }

    /// As [`aborted_transactions`](Self::aborted_transactions), but within the page cache it ends with `NotCached`.
    pub(super) fn aborted_within(
        &self,
        reach: Reach,
        offset: i64,
        read: &ReadInfo,
    ) -> Result<Vec<AbortedEntry>> {
        let mut found = Vec::new();
        let Some(slice) = &read.slice else {
            return Ok(found);
        };
        if !self.has_aborted.load(Ordering::Acquire) {
            return Ok(found);
        }
        let segments = read.segments.clone().unwrap_or_else(|| self.segments());
        let first = segments.partition_point(|segment| segment.base_offset < read.segment);
        let segments = &segments[first..];
        let Some(segment) = segments
            .first()
            .filter(|segment| Arc::ptr_eq(&segment.file, &slice.file))
        else {
            // It left the log since.
            return Err(LogError::OffsetOutOfRange {
                offset,
                start: self.start_offset(),
                end: self.end_offset(),
            });
        };
        let mut upper_bound = None;
        for asked in segments {
            if !asked.transaction_index.reaches(reach, offset)? {
                continue;
            }
            // Only now, since it costs a look into the file.
            let upper_bound = match upper_bound {
                Some(known) => known,
                None => *upper_bound.insert(end_of_slice(reach, segment, slice)?),
            };
            if asked
                .transaction_index
                .collect(reach, offset, upper_bound, &mut found)?
            {
                break;
            }
        }
        Ok(found)
    }
}

/// The offset after the last batch that lies whole in a slice of the segment.
fn end_of_slice(reach: Reach, segment: &Segment, slice: &FileSlice) -> Result<i64> {
    let position = slice.position;
    let end = position + slice.length;
    // The last batch that the index knows before the end: the first behind it is not far.
    let known = segment.offset_index.last_before_position(reach, end)?;
    let from = known.map_or(position, |known| known.max(position));
    match end_of_batches(reach, segment, position, from, end) {
        // The index was wrong: do without it.
        Err(LogError::Corrupt { .. }) if from > position => {
            end_of_batches(reach, segment, position, position, end)
        }
        other => other,
    }
}

/// `first`: where the first batch starts, `from`: it or one behind it.
fn end_of_batches(reach: Reach, segment: &Segment, first: u64, from: u64, end: u64) -> Result<i64> {
    let scan = Scan::new(&segment.file, from, segment.size_bytes(), LOOKUP_BYTES)?;
    let mut scan = scan.within(reach);
    let mut offset = i64::MIN;
    while let Some(batch) = scan.next_header()? {
        if batch.end() > end {
            if offset == i64::MIN && from > first {
                offset = batch.header.base_offset;
            }
            break;
        }
        offset = batch.header.last_offset() + 1;
        if batch.end() == end {
            break;
        }
    }
    Ok(offset)
}

#[cfg(test)]
mod tests {
    use super::super::tests::Folder;
    use super::super::{FetchRange, LogConfig, LogError};
    use rustix::fs::{Advice, fadvise};

    use super::*;
    use crate::records::{BatchBuilder, BatchOptions, Outcome};

    fn batch(producer: (i64, i16), sequence: i32, records: usize) -> Vec<u8> {
        let mut builder = BatchBuilder::new(BatchOptions {
            producer_id: producer.0,
            producer_epoch: producer.1,
            base_sequence: sequence,
            transactional: true,
            ..BatchOptions::default()
        });
        for _ in 0..records {
            builder.append(1000, None, Some(&[7; 20]), &[]).unwrap();
        }
        builder.finish().unwrap()
    }

    fn write(log: &Log, producer: (i64, i16), sequence: i32, records: usize) -> i64 {
        let mut batch = batch(producer, sequence, records);
        let appended = log
            .append(&mut batch, 0, AppendOrigin::Client, 1000)
            .unwrap();
        log.set_high_watermark(log.end_offset());
        appended.base_offset
    }

    fn end(log: &Arc<Log>, producer: (i64, i16), outcome: Outcome, epoch: i32) -> Result<i64> {
        let marker = Marker {
            outcome,
            coordinator_epoch: epoch,
        };
        let (sender, receiver) = std::sync::mpsc::channel();
        let done = move |result| sender.send(result).unwrap();
        // On another thread if it starts a segment.
        match log.append_marker(producer, marker, 0, 1000, done)? {
            Some(info) => Ok(info.base_offset),
            None => Ok(receiver.recv().unwrap()?.base_offset),
        }
    }

    #[test]
    fn a_transaction_holds_readers_back_until_its_marker_is_replicated() {
        let folder = Folder::new();
        let log = folder.open(LogConfig::default(), true);
        write(&log, (9, 0), 0, 1); // ended at once
        end(&log, (9, 0), Outcome::Commit, 0).unwrap();
        assert_eq!(log.last_stable_offset(), 0); // the high watermark is before its marker
        log.set_high_watermark(2);
        assert_eq!(log.last_stable_offset(), 2);
        let first = write(&log, (1, 0), 0, 3);
        let second = write(&log, (2, 0), 0, 3);
        assert_eq!((first, second, log.last_stable_offset()), (2, 5, 2));
        let marker = end(&log, (1, 0), Outcome::Abort, 0).unwrap();
        log.set_high_watermark(marker);
        assert_eq!(log.last_stable_offset(), 2);
        log.set_high_watermark(marker + 1);
        assert_eq!(log.last_stable_offset(), 5);
        // Where the start of a transaction was deleted it counts from the log's start.
        log.set_start_offset(7).unwrap();
        assert_eq!(log.last_stable_offset(), 7);
        end(&log, (2, 0), Outcome::Commit, 0).unwrap();
        log.set_high_watermark(log.end_offset());
        assert_eq!(log.last_stable_offset(), log.end_offset());
        assert_eq!(log.first_unstable_offset(), None);
    }

    #[test]
    fn truncation_opens_a_transaction_again() {
        let folder = Folder::new();
        let log = folder.open(LogConfig::default(), true);
        write(&log, (1, 0), 0, 3);
        let marker = end(&log, (1, 0), Outcome::Abort, 0).unwrap();
        log.set_high_watermark(log.end_offset());
        assert_eq!(log.last_stable_offset(), 4);
        log.truncate_to(marker, None).unwrap();
        assert_eq!((log.end_offset(), log.last_stable_offset()), (3, 0));
        let read = log.read(0, 1 << 20, i64::MAX, true).unwrap();
        assert_eq!(log.aborted_transactions(0, &read).unwrap(), []);
    }

    #[test]
    fn markers_are_fenced() {
        let folder = Folder::new();
        let log = folder.open(LogConfig::default(), true);
        write(&log, (1, 3), 0, 1);
        let refused = end(&log, (1, 2), Outcome::Abort, 5).unwrap_err();
        assert!(matches!(
            refused,
            LogError::InvalidProducerEpoch { current: 3, .. }
        ));
        end(&log, (1, 3), Outcome::Commit, 5).unwrap();
        let refused = end(&log, (1, 3), Outcome::Commit, 4).unwrap_err();
        assert!(matches!(
            refused,
            LogError::CoordinatorFenced { current: 5, .. }
        ));
        // The marker of a timeout carries a newer epoch, and shuts out the producer of the old one.
        write(&log, (1, 3), 1, 1);
        end(&log, (1, 4), Outcome::Abort, 5).unwrap();
        let mut late = batch((1, 3), 2, 1);
        let refused = log
            .append(&mut late, 0, AppendOrigin::Client, 1000)
            .unwrap_err();
        assert!(matches!(
            refused,
            LogError::InvalidProducerEpoch { current: 4, .. }
        ));
        assert_eq!(log.producers()[0].transaction_start, None);
    }

    /// Small batches and segments, so that indexes and several segments take part.
    #[test]
    fn aborted_transactions_that_are_not_in_memory_are_read_by_a_thread() {
        let folder = Folder::within(env!("CARGO_MANIFEST_DIR"));
        let log = folder.open(LogConfig::default(), true);
        write(&log, (1, 0), 0, 3);
        end(&log, (1, 0), Outcome::Abort, 0).unwrap();
        log.close(true).unwrap();
        let log = folder.open(LogConfig::default(), true);
        let range = |committed| FetchRange {
            offset: 0,
            bytes_max: 1 << 20,
            upper_bound: log.end_offset(),
            at_least_one: true,
            committed,
        };
        let path = folder.0.path().join("t-0/00000000000000000000.txnindex");
        let file = std::fs::File::open(path).unwrap();
        file.sync_all().unwrap();
        let (told, hears) = std::sync::mpsc::channel();
        // What another may disturb that reads files ahead, or takes pages back.
        let by_a_thread = (0..100).find_map(|_| {
            log.read(0, 1 << 20, i64::MAX, true).unwrap();
            fadvise(&file, 0, None, Advice::DontNeed).unwrap();
            let uncommitted = log.fetch_or_queue(range(false), |_| {}).unwrap();
            let told = told.clone();
            let queued = log.fetch_or_queue(range(true), move |found| told.send(found).unwrap());
            let is_queued = queued.unwrap().is_none();
            let found = is_queued.then(|| hears.recv().unwrap().unwrap());
            found.filter(|_| uncommitted.is_some_and(|read| read.aborted.is_none()))
        });
        let aborted = by_a_thread.expect("nothing is cold").aborted.unwrap();
        assert_eq!(aborted.len(), 1);
        let at_once = log.fetch_or_queue(range(true), |_| {}).unwrap().unwrap();
        assert_eq!(at_once.aborted, Some(aborted));
    }

    #[test]
    fn exactly_the_aborted_transactions_of_what_was_read() {
        let folder = Folder::new();
        let config = LogConfig {
            segment_bytes: 3000,
            index_interval_bytes: 200,
            ..LogConfig::default()
        };
        let log = folder.open(config.clone(), true);
        let mut aborted = Vec::new(); // (producer, offsets of its batches, marker)
        let mut open: Vec<(i64, i32, Vec<i64>)> = (0..5).map(|id| (id, 0, Vec::new())).collect();
        for round in 0..400usize {
            let at = round * 7 % 5;
            let (id, sequence, offsets) = &mut open[at];
            if offsets.len() == 3 + at {
                let outcome = if round % 3 == 0 {
                    Outcome::Commit
                } else {
                    Outcome::Abort
                };
                let marker = end(&log, (*id, 0), outcome, 0).unwrap();
                if outcome == Outcome::Abort {
                    aborted.push((*id, offsets.clone(), marker));
                }
                offsets.clear();
            } else {
                offsets.push(write(&log, (*id, 0), *sequence, 1));
                *sequence += 1;
            }
        }
        let check = |log: &Log| {
            let end = log.end_offset();
            for offset in (0..end).step_by(3) {
                for bytes_max in [1, 150, 900, 1 << 20] {
                    let read = log.read(offset, bytes_max, end, true).unwrap();
                    let slice = read.slice.clone().unwrap().read().unwrap();
                    let whole = crate::records::Batches::new(&slice).map_while(|batch| batch.ok());
                    let last = whole.last().unwrap().header.base_offset;
                    let expected: Vec<_> = aborted
                        .iter()
                        .filter(|(_, offsets, marker)| offsets[0] <= last && *marker >= offset)
                        .map(|(id, offsets, marker)| (*id, offsets[0], *marker))
                        .collect();
                    let found = log.aborted_transactions(offset, &read).unwrap();
                    let found: Vec<_> = found
                        .iter()
                        .map(|entry| (entry.producer_id, entry.first_offset, entry.last_offset))
                        .collect();
                    assert_eq!(found, expected, "from {offset}, {bytes_max} bytes");
                }
            }
        };
        assert!(log.segments().len() > 5 && aborted.len() > 20);
        check(&log);
        log.close(true).unwrap();
        check(&folder.open(config.clone(), true));
        // Recovery makes the indexes anew.
        for entry in std::fs::read_dir(folder.0.path().join("t-0")).unwrap() {
            let path = entry.unwrap().path();
            if path
                .extension()
                .is_some_and(|extension| extension == "txnindex")
            {
                std::fs::remove_file(path).unwrap();
            }
        }
        check(&folder.open(config, false));
    }

    #[test]
    fn a_first_batch_needs_a_guard_that_still_holds() {
        let folder = Folder::new();
        let config = LogConfig {
            verify_transactions: true,
            ..LogConfig::default()
        };
        let log = folder.open(config, true);
        let send = |sequence, guard| {
            log.append_with(
                &mut batch((1, 0), sequence, 1),
                0,
                AppendOrigin::Client,
                guard,
                1000,
            )
        };
        let refused = |result: Result<AppendInfo>| {
            matches!(result, Err(LogError::InvalidTransactionState { .. }))
        };
        assert!(refused(send(0, NO_GUARD)));
        let guard = log.begin_verification((1, 0), 1, 0);
        // The request before it was slower; both have the same guard, and the first must be first.
        assert_eq!(log.begin_verification((1, 0), 0, 0), guard);
        assert!(matches!(
            send(1, guard),
            Err(LogError::OutOfOrderSequence { .. })
        ));
        assert!(refused(send(0, guard + 1)));
        send(0, guard).unwrap();
        assert_eq!(log.begin_verification((1, 0), 1, 0), NO_GUARD);
        send(1, NO_GUARD).unwrap();
        end(&log, (1, 0), Outcome::Commit, 0).unwrap();
        // A batch that was verified, and then was slower than the marker.
        let guard = log.begin_verification((1, 0), 2, 0);
        end(&log, (1, 0), Outcome::Abort, 0).unwrap();
        assert!(refused(send(2, guard)));
        let guard = log.begin_verification((1, 0), 2, 0);
        log.refuse_verification(1, guard);
        assert!(refused(send(2, guard)));
        // An announcement that nothing came of is forgotten.
        let guard = log.begin_verification((1, 0), 2, 0);
        log.expire_producers(i64::MAX);
        assert!(refused(send(2, guard)));
    }
}

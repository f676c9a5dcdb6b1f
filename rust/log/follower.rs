//! Changes that a follower makes to its log, and how a role change gets in between: the fence.
//!
//! A fetcher appends batches as the leader has them, byte for byte, and names the leader epoch under which it fetched. The epoch is compared under
//! the writer's lock, and so is it by a leader's appends. [`Log::fence`] raises the epoch and then takes that lock once: when it has returned, whatever
//! was being written under an older epoch is written, and nothing of an older epoch will be. So a role change needs no more than
//! the fence to be sure that a log's end stays where it is until the new role moves it.
//!
//! A log whose replica moved between data directories sends everybody on to its successor, who took the epoch over.

use std::ops::Range;
use std::sync::atomic::Ordering;

use super::append::{AppendInfo, Roll};
use super::config::LogConfig;
use super::error::{LogError, Result};
use super::log::Log;
use super::offset_index::fits;
use super::prepare::Checked;
use super::snapshots::end_marker;
use crate::records::{Batches, check_crc};

/// A batch with its position in the bytes that it came in.
type Located = (usize, Checked);

impl Log {
    /// From now on appends and truncations must name `epoch`: when it returns, none that names an older one is going on or will be done. It waits for
    /// whoever is writing to the log, so it is not for the loop. `OtherEpoch`, with nothing changed, if the log is in a newer epoch.
    pub fn fence(&self, epoch: i32) -> Result<()> {
        self.raise_epoch(epoch)?;
        // What is staged is written by nobody any more: its epoch is the older one.
        drop(self.writer());
        match self.successor.get() {
            // It took this one's place before the lock was ours, perhaps with the epoch from before.
            Some(next) => next.fence(epoch),
            None => Ok(()),
        }
    }

    /// The first half of a fence: appends that have not begun are refused, and one that is being written goes on.
    pub(super) fn raise_epoch(&self, epoch: i32) -> Result<()> {
        // A log in no epoch is in the least of all.
        if self.expected_epoch.load(Ordering::Acquire) < epoch {
            self.led_since.fetch_max(epoch, Ordering::AcqRel);
        }
        self.expect(epoch)
    }

    fn expect(&self, epoch: i32) -> Result<()> {
        let current = self.expected_epoch.fetch_max(epoch, Ordering::AcqRel);
        if current > epoch {
            return Err(LogError::OtherEpoch {
                given: epoch,
                current,
            });
        }
        Ok(())
    }

    /// The leader leads on, in the next epoch: what still names an older one of its term is appended under the new one, so no producer hears of
    /// the change. For the loop; `begin_epoch` is to follow, so that the epoch starts here even if nothing is ever appended in it.
    pub fn lead_on(&self, epoch: i32) -> Result<()> {
        match self.successor.get() {
            Some(next) => next.lead_on(epoch),
            None => self.expect(epoch),
        }
    }

    /// Refuses appends that name an older epoch from now on. For the loop: one that is being written goes on, and `fence` waits for it.
    pub fn refuse_older(&self, epoch: i32) -> Result<()> {
        match self.successor.get() {
            Some(next) => next.refuse_older(epoch),
            None => self.raise_epoch(epoch),
        }
    }

    /// An error if the log, or the one that took its place, takes no appends.
    pub(super) fn check_used(&self) -> Result<()> {
        match self.successor.get() {
            Some(next) => next.check_used(),
            None => self.check_writable(),
        }
    }

    /// Appends what a leader sent, byte for byte: offsets, epochs and timestamps stay. Batches must continue the log; bytes of a last batch
    /// that is not whole are left out. An empty log that starts inside the first batch is made to start with it: the leader's log starts there.
    ///
    /// Refused, with nothing appended: another epoch than the log's, a batch that is damaged or of a newer epoch than `leader_epoch`, offsets
    /// that the log has. What is larger than `segment.bytes` goes into several segments (the leader's may be larger than ours), a batch that is
    /// larger by itself into one of its own. After an error of the disk the segments before the one that failed are there, and the
    /// log's end says so.
    pub fn append_as_follower(
        &self,
        records: &[u8],
        leader_epoch: i32,
        now_ms: i64,
    ) -> Result<AppendInfo> {
        self.append_fetched(records, Some(leader_epoch), Some(leader_epoch), now_ms)
    }

    /// The same where batches may be of newer epochs than `leader_epoch`: the leader was asked, and has them. Such records are older than a
    /// coordination tree that was put back from a backup, or made anew.
    pub fn append_of_any_epoch(
        &self,
        records: &[u8],
        leader_epoch: i32,
        now_ms: i64,
    ) -> Result<AppendInfo> {
        self.append_fetched(records, Some(leader_epoch), None, now_ms)
    }

    /// The same from another log of this broker, for which no epoch is expected.
    pub(super) fn append_copied(&self, records: &[u8], now_ms: i64) -> Result<AppendInfo> {
        self.append_fetched(records, None, None, now_ms)
    }

    fn append_fetched(
        &self,
        records: &[u8],
        leader_epoch: Option<i32>,
        newest_epoch: Option<i32>,
        now_ms: i64,
    ) -> Result<AppendInfo> {
        if let Some(next) = self.successor.get() {
            return next.append_fetched(records, leader_epoch, newest_epoch, now_ms);
        }
        self.check_writable()?;
        self.check_given(leader_epoch)?;
        // Checksums take time, in which others may have the lock.
        let batches = check_fetched(records, newest_epoch)?;
        if batches
            .first()
            .is_some_and(|first| self.begins_inside(first))
        {
            self.start_with(&batches, leader_epoch)?;
        }
        self.append_checked(records, batches, leader_epoch, now_ms)
    }

    /// True if the log is empty, and starts inside this batch: records were deleted up to there
    /// from the log that it is to be like, which has the batch whole.
    fn begins_inside(&self, (_, batch): &Located) -> bool {
        let end = self.end_offset();
        let header = &batch.header;
        self.start_offset() == end && header.base_offset < end && end <= header.last_offset()
    }

    /// Has an empty log that starts inside the first of `batches` start where that begins. Its start moves up again when the other log's is told.
    #[cold]
    fn start_with(&self, batches: &[Located], leader_epoch: Option<i32>) -> Result<()> {
        self.under_epoch(leader_epoch, |log, writer| {
            match batches.first() {
                Some(first) if log.begins_inside(first) => {
                    let offset = first.1.header.base_offset;
                    check_continues(batches, offset)?;
                    log.start_anew(writer, offset)?;
                    // Before the append: what it writes must not lie below the checkpoint.
                    log.settle(writer)
                }
                // Somebody else was faster.
                _ => Ok(()),
            }
        })
    }

    fn append_checked(
        &self,
        records: &[u8],
        mut batches: Vec<Located>,
        leader_epoch: Option<i32>,
        now_ms: i64,
    ) -> Result<AppendInfo> {
        let mut writer = self.writer();
        if let Some(next) = self.successor.get() {
            // It took this one's place while we waited for the lock.
            drop(writer);
            return next.append_checked(records, batches, leader_epoch, now_ms);
        }
        // It may have been closed meanwhile, or have changed its role.
        self.check_writable()?;
        self.check_given(leader_epoch)?;
        let config = self.config();
        let end_offset = self.end_offset();
        let next = check_continues(&batches, end_offset)?;
        let mut info = AppendInfo {
            base_offset: batches
                .first()
                .map_or(end_offset, |(_, first)| first.header.base_offset),
            last_offset: next - 1,
            append_time_ms: -1,
            log_start_offset: self.start_offset(),
            is_duplicate: false,
            flush_due: false,
            losses: self.losses.load(Ordering::Relaxed),
        };
        let mut from = 0;
        while from < batches.len() {
            let (to, bytes) = piece(&batches, from, self.end_offset(), &config);
            let batches = &mut batches[from..to];
            for (position, _) in batches.iter_mut() {
                *position -= bytes.start;
            }
            let (active, records) = (self.active()?, &records[bytes]);
            let roll = Roll::Start;
            self.write(&mut writer, active, records, batches, &config, now_ms, roll)?;
            info.flush_due = self.is_flush_due(&config, self.end_offset());
            from = to;
        }
        Ok(info)
    }

    pub(super) fn check_given(&self, leader_epoch: Option<i32>) -> Result<()> {
        leader_epoch.map_or(Ok(()), |epoch| self.check_epoch(epoch).map(drop))
    }
}

/// The whole batches of `records`, none of them damaged, and none of an epoch above `newest_epoch`. In all likelihood a leader has none of a newer epoch than
/// its own; believed, such a batch would make the table of epochs say what no leader says, and the log would be cut at the wrong place later.
fn check_fetched(records: &[u8], newest_epoch: Option<i32>) -> Result<Vec<Located>> {
    let mut batches = Vec::new();
    for batch in Batches::new(records) {
        let batch = match batch {
            Err(error) if error.is_incomplete() => break,
            other => other?,
        };
        check_crc(batch.bytes, &batch.header)?;
        let given = batch.header.leader_epoch;
        if let Some(newest) = newest_epoch.filter(|newest| given > *newest) {
            return Err(LogError::NewerEpoch { given, newest });
        }
        let checked = Checked {
            header: batch.header,
            marker: end_marker(batch.bytes, &batch.header),
            corrects_max_timestamp: false,
        };
        batches.push((batch.position, checked));
    }
    Ok(batches)
}

/// The offset behind `batches`, which must continue a log that ends at `end_offset`. A leader's log may have gaps (compaction), never offsets that we have.
fn check_continues(batches: &[Located], end_offset: i64) -> Result<i64> {
    let mut end = end_offset;
    for (_, batch) in batches {
        let (first, last) = (batch.header.base_offset, batch.header.last_offset());
        if first < end || last < first {
            return Err(LogError::UnexpectedOffset { first, end });
        }
        end = last + 1;
    }
    Ok(end)
}

/// The part of `batches`, from the one at `from` on, that fits into one segment of a log that ends
/// at `end_offset`: the index of the batch behind it, and where its bytes are. At least one batch.
fn piece(
    batches: &[Located],
    from: usize,
    end_offset: i64,
    config: &LogConfig,
) -> (usize, Range<usize>) {
    let (start, first) = &batches[from];
    let starts_at = match first.header.is_message() {
        true => end_offset,
        false => first.header.base_offset,
    };
    let end_of = |(position, batch): &Located| position + batch.header.size_bytes();
    let more = batches[from + 1..].iter().take_while(|batch| {
        end_of(batch) - start <= config.segment_bytes as usize
            && fits(starts_at, batch.1.header.last_offset())
    });
    let to = from + 1 + more.count();
    (to, *start..end_of(&batches[to - 1]))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::{RecvTimeoutError, channel};
    use std::time::Duration;

    use super::*;
    use crate::log::pending::INLINE_BYTES_MAX;
    use crate::log::tests::{Folder, batch};
    use crate::log::verification::NO_GUARD;
    use crate::log::{AppendOrigin, When};
    use crate::records::stamp;

    /// Long enough for a thread that is not held back.
    const A_WHILE: Duration = Duration::from_millis(100);

    fn sent(value: &str, offset: i64, epoch: i32) -> Vec<u8> {
        let mut batch = batch(&[value], 1000);
        stamp(&mut batch, offset, epoch, None);
        batch
    }

    fn bases(log: &Log) -> Vec<i64> {
        let segments = log.segments();
        segments.iter().map(|segment| segment.base_offset).collect()
    }

    fn read(log: &Log) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut offset = log.start_offset();
        while let Some(slice) = log.read(offset, 1 << 20, i64::MAX, true).unwrap().slice {
            let more = slice.read().unwrap();
            let last = Batches::new(&more).last().unwrap().unwrap();
            offset = last.header.last_offset() + 1;
            bytes.extend(more);
        }
        bytes
    }

    #[test]
    fn another_epoch_is_refused_and_nothing_is_changed() {
        let folder = Folder::new();
        let log = folder.open(LogConfig::default(), true);
        log.fence(3).unwrap();
        let both = [sent("a", 0, 2), sent("b", 1, 3)].concat();
        log.append_as_follower(&both, 3, 1000).unwrap();
        let bytes = read(&log);
        assert_eq!(bytes, both);
        for epoch in [2, 4] {
            let refused = |error: LogError| assert_eq!(error.code(), 6, "{error}");
            let more = sent("c", 2, 2);
            refused(log.append_as_follower(&more, epoch, 1000).unwrap_err());
            refused(log.truncate_to(1, Some(epoch)).unwrap_err());
            refused(log.truncate_fully_and_start_at(9, Some(epoch)).unwrap_err());
        }
        // Roles do not go back.
        assert_eq!(log.fence(2).unwrap_err().code(), 6);
        assert_eq!(log.begin_epoch(2).unwrap_err().code(), 6);
        assert_eq!((log.end_offset(), read(&log)), (2, bytes));
        assert_eq!(log.leader_epoch(), 3);
        assert!(log.truncate_to(1, Some(3)).unwrap());
        log.truncate_fully_and_start_at(9, Some(3)).unwrap();
        log.append_as_follower(&sent("d", 9, 3), 3, 1000).unwrap();
        assert_eq!((log.start_offset(), log.end_offset()), (9, 10));
    }

    #[test]
    fn what_no_leader_sends_is_refused() {
        let folder = Folder::new();
        let log = folder.open(LogConfig::default(), true);
        log.append_as_follower(&sent("a", 0, 1), 1, 1000).unwrap();
        let good = sent("b", 1, 1);
        let mut flipped = sent("c", 2, 1);
        *flipped.last_mut().unwrap() ^= 1;
        let newer = sent("c", 2, 2);
        let there = sent("c", 1, 1);
        let last = sent("c", i64::MAX, 1);
        for (second, code) in [(flipped, 2), (newer, 2), (there, -1), (last, 87)] {
            let both = [good.clone(), second].concat();
            let error = log.append_as_follower(&both, 1, 1000).unwrap_err();
            assert_eq!((error.code(), log.end_offset()), (code, 1), "{error}");
        }
        let mut torn = sent("c", 2, 1);
        torn.truncate(70);
        let torn = [good, torn].concat();
        assert_eq!(
            log.append_as_follower(&torn, 1, 1000).unwrap().last_offset,
            1
        );
        let nothing = log.append_as_follower(&[], 1, 1000).unwrap();
        assert_eq!((nothing.base_offset, nothing.last_offset), (2, 1));
        assert_eq!(log.truncate_to(-1, Some(1)).unwrap_err().code(), 1);
        let error = log.truncate_fully_and_start_at(-1, Some(1)).unwrap_err();
        assert_eq!((error.code(), log.end_offset()), (1, 2));
    }

    /// Of which records were deleted up to an offset inside a batch: the leader sends that whole.
    #[test]
    fn an_empty_log_that_starts_inside_a_batch_takes_it_whole() {
        let folder = Folder::new();
        let log = folder.open(LogConfig::default(), true);
        log.fence(3).unwrap();
        let starts_at = |offset| log.truncate_fully_and_start_at(offset, Some(3)).unwrap();
        starts_at(5);
        let mut ten = batch(&["x"; 10], 1000);
        stamp(&mut ten, 0, 2, None);
        // Nothing but a batch that the log starts in.
        for other in [sent("a", 4, 2), [sent("a", 4, 2), sent("b", 5, 2)].concat()] {
            let error = log.append_as_follower(&other, 3, 1000).unwrap_err();
            assert_eq!((error.code(), log.start_offset()), (-1, 5), "{error}");
        }
        let torn = [ten.clone(), sent("late", 9, 2)].concat();
        let error = log.append_as_follower(&torn, 3, 1000).unwrap_err();
        assert_eq!((error.code(), log.start_offset()), (-1, 5), "{error}");
        let error = log.append_as_follower(&ten, 2, 1000).unwrap_err();
        assert_eq!((error.code(), log.start_offset()), (6, 5), "{error}");
        let all = [ten.clone(), sent("b", 10, 3)].concat();
        let info = log.append_as_follower(&all, 3, 1000).unwrap();
        assert_eq!((info.base_offset, info.last_offset), (0, 10));
        log.set_high_watermark(11);
        log.set_start_offset(5).unwrap();
        assert_eq!((log.start_offset(), log.end_offset()), (5, 11));
        assert_eq!((bases(&log), read(&log)), (vec![0], all));
        let epochs = log.leader_epochs();
        let epochs = epochs.entries().iter();
        let epochs: Vec<_> = epochs.map(|one| (one.epoch, one.start_offset)).collect();
        assert_eq!(epochs, [(2, 5), (3, 10)]);
        // A log that is not empty.
        let mut around = ten.clone();
        stamp(&mut around, 8, 3, None);
        for other in [&ten, &around] {
            let error = log.append_as_follower(other, 3, 1000).unwrap_err();
            assert_eq!((error.code(), log.end_offset()), (-1, 11), "{error}");
        }
        starts_at(9);
        log.append_as_follower(&ten, 3, 1000).unwrap();
        log.close(false).unwrap();
        let log = folder.open(LogConfig::default(), false);
        assert_eq!((log.end_offset(), read(&log)), (10, ten));
    }

    /// The leader's segments may be larger than ours, and so may its batches be.
    #[test]
    fn what_is_larger_than_a_segment_goes_into_several() {
        let small = |offset| sent("x", offset, 0);
        let (bytes, large) = (small(0).len(), sent(&"y".repeat(1000), 5, 0));
        let config = LogConfig {
            segment_bytes: 3 * bytes as u32,
            ..LogConfig::default()
        };
        let folder = Folder::new();
        let log = folder.open(config.clone(), true);
        let mut all: Vec<u8> = (0..5).flat_map(small).collect();
        all.extend(&large);
        all.extend((6..13).flat_map(small));
        let info = log.append_as_follower(&all, 0, 1000).unwrap();
        assert_eq!((info.base_offset, info.last_offset), (0, 12));
        assert_eq!(bases(&log), [0, 3, 5, 6, 9, 12]);
        let sizes: Vec<u64> = log.segments().iter().map(|one| one.size_bytes()).collect();
        let small = bytes as u64;
        let expected = [3, 2, 0, 3, 3, 1].map(|count| count * small);
        assert_eq!(sizes[2], large.len() as u64);
        assert!((0..6).all(|at| at == 2 || sizes[at] == expected[at]));
        assert_eq!(read(&log), all);
        // A leader may not append it, and a log that has it is opened again.
        let mut large = batch(&["y".repeat(1000).as_str()], 1000);
        let own = log.append(&mut large, 0, AppendOrigin::Client, 1000);
        assert_eq!(own.unwrap_err().code(), 18);
        log.close(false).unwrap();
        let log = folder.open(config, false);
        assert_eq!((log.end_offset(), read(&log)), (13, all));
    }

    /// A compacted leader has gaps, and an index counts 31 bits from its segment's first offset.
    #[test]
    fn offsets_that_are_far_from_each_other_go_into_several_segments() {
        let folder = Folder::new();
        let log = folder.open(LogConfig::default(), true);
        let far = 1i64 << 31;
        let offsets = [5, 7, far - 1, far + 5, far + 6, 1 << 40];
        let all: Vec<u8> = offsets
            .iter()
            .flat_map(|offset| sent("x", *offset, 0))
            .collect();
        log.append_as_follower(&all, 0, 1000).unwrap();
        assert_eq!(bases(&log), [0, far + 5, 1 << 40]);
        assert_eq!(read(&log), all);
    }

    type Late<'a> = Box<dyn FnOnce() -> Result<()> + Send + 'a>;

    /// Starts `works`, which all wait for the log's writer; does something meanwhile, and lets them go on. What they return, in their order.
    fn held_back(log: &Log, works: Vec<Late<'_>>, meanwhile: impl FnOnce()) -> Vec<Result<()>> {
        std::thread::scope(|scope| {
            let writer = log.writer();
            let (ended, early) = channel();
            let mut begun = Vec::new();
            for work in works {
                let ended = ended.clone();
                begun.push(scope.spawn(move || {
                    let result = work();
                    ended.send(()).unwrap();
                    result
                }));
            }
            assert_eq!(early.recv_timeout(A_WHILE), Err(RecvTimeoutError::Timeout));
            meanwhile();
            drop(writer);
            let ends = begun.into_iter().map(|late| late.join().unwrap());
            ends.collect()
        })
    }

    /// A batch that is being written when the epoch is raised may be written to its end, but not
    /// after the fence has returned.
    #[test]
    fn a_fence_waits_for_who_is_writing() {
        let folder = Folder::new();
        let log = folder.open(LogConfig::default(), true);
        log.fence(1).unwrap();
        let (fence, begin): (Late<'_>, Late<'_>) =
            (Box::new(|| log.fence(2)), Box::new(|| log.begin_epoch(2)));
        let refused = |epoch: i32| {
            // Whoever comes now is refused already.
            let late = log.append_as_follower(&sent("late", 0, 1), epoch, 1000);
            assert_eq!(late.unwrap_err().code(), 6);
        };
        let ends = held_back(&log, vec![fence, begin], || refused(1));
        assert!(ends.iter().all(|end| end.is_ok()));
        assert_eq!((log.end_offset(), log.leader_epoch()), (0, 2));
        // A new leader that waits to begin is not one any more.
        let begin: Late<'_> = Box::new(|| log.begin_epoch(3));
        let ends = held_back(&log, vec![begin], || log.raise_epoch(4).unwrap());
        assert_eq!(ends[0].as_ref().unwrap_err().code(), 6);
        assert_eq!(log.leader_epoch(), 2);
    }

    /// The epoch was right when the append came, and when it was the next it was not.
    #[test]
    fn what_waits_for_the_lock_is_compared_again() {
        let folder = Folder::new();
        let log = folder.open(LogConfig::default(), true);
        log.fence(1).unwrap();
        log.append_as_follower(&sent("a", 0, 1), 1, 1000).unwrap();
        let works: Vec<Late<'_>> = vec![
            Box::new(|| log.append_as_follower(&sent("b", 1, 1), 1, 1000).map(drop)),
            Box::new(|| log.truncate_to(0, Some(1)).map(drop)),
            Box::new(|| log.truncate_fully_and_start_at(7, Some(1))),
        ];
        for end in held_back(&log, works, || log.raise_epoch(2).unwrap()) {
            assert_eq!(end.unwrap_err().code(), 6);
        }
        assert_eq!(log.end_offset(), 1);
    }

    #[test]
    fn queued_appends_end_before_a_log_is_followed() {
        let folder = Folder::new();
        let log = folder.open(LogConfig::default(), true);
        log.begin_epoch(1).unwrap();
        let (wake, woken) = channel::<()>();
        log.queue(Box::new(move |_| woken.recv().unwrap())).unwrap();
        let (sender, ended) = channel();
        for size in [10, INLINE_BYTES_MAX] {
            let (records, sender) = (batch(&["x".repeat(size).as_str()], 1000), sender.clone());
            let done = move |result| sender.send(result).unwrap();
            let (when, origin) = (When::Quick, AppendOrigin::Client);
            let queued = log.append_or_queue(when, records, 1, origin, NO_GUARD, 1000, done);
            assert!(queued.unwrap().is_none());
        }
        let (follows, followed) = channel();
        let waiting = Arc::clone(&log);
        let waits = std::thread::spawn(move || {
            waiting.fence(2).unwrap();
            waiting.wait_for_queued();
            follows.send(()).unwrap();
        });
        let early = followed.recv_timeout(A_WHILE);
        assert_eq!(early, Err(RecvTimeoutError::Timeout));
        wake.send(()).unwrap();
        followed.recv().unwrap();
        let codes: Vec<i16> = ended
            .try_iter()
            .map(|one: Result<AppendInfo>| one.unwrap_err().code())
            .collect();
        assert_eq!((codes, log.end_offset()), (vec![6, 6], 0));
        waits.join().unwrap();
        // Where nothing is queued there is nothing to wait for.
        log.wait_for_queued();
    }

    fn two_logs(folders: &[Folder; 2]) -> [Arc<Log>; 2] {
        folders.each_ref().map(|folder| {
            let log = folder.open(LogConfig::default(), true);
            log.fence(1).unwrap();
            for offset in 0..4 {
                let records = sent("a", offset, 1);
                log.append_as_follower(&records, 1, 1000).unwrap();
            }
            log
        })
    }

    /// Who holds a log whose replica moved to another directory works on the one that took its place.
    #[test]
    fn a_log_that_moved_sends_followers_on() {
        let folders = [Folder::new(), Folder::new()];
        let [old, new] = two_logs(&folders);
        assert!(old.successor.set(Arc::clone(&new)).is_ok());
        old.append_as_follower(&sent("c", 4, 1), 1, 1000).unwrap();
        assert_eq!(new.end_offset(), 5);
        old.fence(2).unwrap();
        assert_eq!(new.truncate_to(3, Some(1)).unwrap_err().code(), 6);
        assert_eq!(old.truncate_to(3, Some(1)).unwrap_err().code(), 6);
        assert!(old.truncate_to(3, Some(2)).unwrap());
        assert_eq!((old.end_offset(), new.end_offset()), (4, 3));
        old.truncate_fully_and_start_at(9, Some(2)).unwrap();
        assert_eq!((old.end_offset(), new.end_offset()), (4, 9));
        old.begin_epoch(3).unwrap();
        assert_eq!(new.leader_epoch(), 3);
    }

    /// The same for who waits for the log while its place is taken.
    #[test]
    fn a_log_that_moves_sends_on_who_waits_for_it() {
        let begun: [fn(&Log) -> Result<()>; 5] = [
            |log| log.append_as_follower(&sent("b", 4, 1), 1, 1000).map(drop),
            |log| log.truncate_to(3, Some(1)).map(drop),
            |log| log.truncate_fully_and_start_at(9, Some(1)),
            |log| log.fence(3),
            |log| log.begin_epoch(4),
        ];
        let ends = [5, 3, 9, 4, 4];
        for (at, begun) in begun.into_iter().enumerate() {
            let folders = [Folder::new(), Folder::new()];
            let [old, new] = two_logs(&folders);
            let work: Late<'_> = Box::new(|| begun(&old));
            let moves = || assert!(old.successor.set(Arc::clone(&new)).is_ok());
            let ended = held_back(&old, vec![work], moves);
            assert!(ended[0].is_ok(), "{at}: {:?}", ended[0]);
            assert_eq!((old.end_offset(), new.end_offset()), (4, ends[at]), "{at}");
            let expected = new.expected_epoch.load(Ordering::Acquire);
            assert_eq!(expected, [1, 1, 1, 3, 4][at], "{at}");
        }
    }

    /// A fetcher that comes late finds a log that was closed, perhaps while it waited.
    #[test]
    fn a_log_that_is_closed_meanwhile_takes_nothing() {
        let folder = Folder::new();
        let log = folder.open(LogConfig::default(), true);
        log.append_as_follower(&sent("a", 0, 1), 1, 1000).unwrap();
        let mut records = batch(&["c"], 1000);
        let works: Vec<Late<'_>> = vec![
            Box::new(|| log.append_as_follower(&sent("b", 1, 1), 1, 1000).map(drop)),
            Box::new(|| log.truncate_to(0, Some(1)).map(drop)),
            Box::new(|| {
                log.append(&mut records, 1, AppendOrigin::Client, 1000)
                    .map(drop)
            }),
        ];
        let close = || log.closed.store(true, Ordering::Release);
        for end in held_back(&log, works, close) {
            let error = end.unwrap_err();
            assert!(matches!(error, LogError::Closed(_)), "{error}");
        }
        assert_eq!(log.end_offset(), 1);
    }
}

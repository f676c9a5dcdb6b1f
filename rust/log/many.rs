//! Role changes of thousands of logs at once.
//!
//! A broker that dies leaves each of the others with new leaders for hundreds or thousands of partitions, in one request. What would cost an fsync for each
//! log, or a checkpoint of all logs for each, is done once for all of them here. A log that fails does not stop the others.

use std::sync::Arc;

use super::directory::{AT_ONCE, LogDirectory, in_parallel};
use super::error::{Context, LogError, Result};
use super::log::{Log, Writer};
use super::names::TopicPartition;
use super::truncate::Cut;

/// A log that was cut, and its cut.
type Unsettled = (Arc<Log>, Arc<Cut>);

/// A log that is to end at an offset, under a leader epoch.
type ToCut = (TopicPartition, i64, i32);

impl LogDirectory {
    /// [`Log::begin_epoch`] for each log, `threads` at a time. Each writes a small file, which is too much for the loop. Results in the order of `epochs`.
    pub fn begin_epochs(
        &self,
        epochs: &[(TopicPartition, i32)],
        threads: usize,
    ) -> Vec<Result<()>> {
        let threads = if epochs.len() < 16 { 1 } else { threads };
        in_parallel(threads, epochs, |(partition, epoch)| {
            self.used(partition)?.begin_epoch(*epoch)
        })
    }

    /// Fences each log at its leader epoch ([`Log::fence`]) and waits until the appends that were queued for it have ended: then the log's end is the follower's
    /// to move. Results in the order of `epochs`. It waits for the disk, so it is not for the loop.
    pub fn follow_many(&self, epochs: &[(TopicPartition, i32)]) -> Vec<Result<()>> {
        // First of all everybody is refused: while the end of one log's appends is waited for, those of the others fail already.
        let raise = |(partition, epoch): &(TopicPartition, i32)| {
            let log = self.used(partition)?;
            log.raise_epoch(*epoch)?;
            Ok((log, *epoch))
        };
        let logs: Vec<Result<(Arc<Log>, i32)>> = epochs.iter().map(raise).collect();
        let follow = |(log, epoch): (Arc<Log>, i32)| {
            log.fence(epoch)?;
            log.wait_for_queued();
            log.check_used()
        };
        logs.into_iter().map(|log| follow(log?)).collect()
    }

    /// [`Log::truncate_to`] for many logs, each to its offset and under its leader epoch, `threads` at a time, with one checkpoint for all. True in its place
    /// in the results for a log of which batches went.
    ///
    /// **Order.** Every log is cut, then the cuts are made durable, then the checkpoint of recovery points is written, and from then on appends find nothing to
    /// do. An append that comes before that [settles](Log::settle) its log by itself. If cuts cannot be made durable or the checkpoint cannot be
    /// written, the logs are cut all the same, and get the error.
    pub fn truncate_many(&self, cuts: &[ToCut], threads: usize) -> Vec<Result<bool>> {
        self.cut_many(cuts, threads, Log::cut)
    }

    /// [`Log::truncate_fully_and_start_at`] for many logs, in the same way.
    pub fn start_many_anew(&self, cuts: &[ToCut], threads: usize) -> Vec<Result<bool>> {
        self.cut_many(cuts, threads, |log, writer, offset| {
            log.start_anew(writer, offset)?;
            Ok(true)
        })
    }

    fn cut_many(
        &self,
        cuts: &[ToCut],
        threads: usize,
        work: impl Fn(&Log, &mut Writer, i64) -> Result<bool> + Sync,
    ) -> Vec<Result<bool>> {
        let threads = if cuts.len() < 16 { 1 } else { threads };
        let cut = |(partition, offset, epoch): &ToCut| {
            let log = self.used(partition)?;
            self.cut(&log, *epoch, |log, writer| work(log, writer, *offset))
        };
        let results: Vec<Result<(bool, Option<Unsettled>)>> = in_parallel(threads, cuts, cut);
        let unsettled: Vec<&Unsettled> = results
            .iter()
            .filter_map(|result| result.as_ref().ok()?.1.as_ref())
            .collect();
        let settled = self.settle_all(&unsettled, threads);
        let told = |result: Result<(bool, Option<Unsettled>)>| match (result?, &settled) {
            ((_, Some(_)), Err(error)) => Err(error.clone()),
            ((went, _), _) => Ok(went),
        };
        results.into_iter().map(told).collect()
    }

    /// Cuts one log by `work`. Returns whether batches went, and what is left to do for it.
    fn cut(
        &self,
        log: &Log,
        leader_epoch: i32,
        work: impl FnOnce(&Log, &mut Writer) -> Result<bool>,
    ) -> Result<(bool, Option<Unsettled>)> {
        log.under_epoch(Some(leader_epoch), |log, writer| {
            let went = work(log, writer)?;
            if !self.is_home_of(log) {
                // It moved to another directory, which has a checkpoint of its own.
                log.settle(writer)?;
            }
            let unsettled = writer.unsettled.clone();
            Ok((went, log.this.upgrade().zip(unsettled)))
        })
    }

    fn settle_all(&self, unsettled: &[&Unsettled], threads: usize) -> Result<()> {
        if unsettled.is_empty() {
            return Ok(());
        }
        self.sync_cuts(unsettled, threads)?;
        self.checkpoint_after_truncation()?;
        for (log, cut) in unsettled {
            log.note_settled(cut);
        }
        Ok(())
    }

    fn sync_cuts(&self, unsettled: &[&Unsettled], threads: usize) -> Result<()> {
        let home = self.home();
        if unsettled.len() >= AT_ONCE && home.storage.can_sync_all() {
            let synced = home.storage.sync_all(self.path());
            return home.guard(synced.context("sync", self.path()));
        }
        let synced = in_parallel(threads, unsettled, |(log, cut)| {
            log.guard(log.sync_cut(cut))
        });
        synced.into_iter().collect()
    }

    /// The open log of a partition whose place is in this directory.
    fn used(&self, partition: &TopicPartition) -> Result<Arc<Log>> {
        let log = self.get(partition).filter(|log| !log.is_future());
        log.ok_or_else(|| LogError::Closed(partition.to_string()))
    }
}

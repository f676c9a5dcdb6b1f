//! The transactions that a log must have, computed from the list of everything that was appended.
//!
//! Records that were deleted from the front leave two truths: a log that went on knows where a transaction began, one that was recovered
//! knows its first batch that is left. Readers cannot tell them apart, so both are right.

use std::collections::{BTreeMap, BTreeSet};

use super::entries::{Content, Entry};
use crate::log::Log;
use crate::records::{AbortedTransaction, AbortedTransactions, Batches, Limits, Records, Scratch};

struct Ended {
    producer_id: i64,
    first_offset: i64,
    marker: i64,
    is_commit: bool,
    /// The first offsets of its batches.
    batches: Vec<i64>,
}

/// The transactions of a list: those that a marker ended, and the producers and first offsets of those that are open.
fn transactions(entries: &[Entry]) -> (Vec<Ended>, BTreeMap<i64, Vec<i64>>) {
    let mut open: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
    let mut ended = Vec::new();
    for entry in entries {
        match entry.content {
            Content::Plain => {}
            Content::Transactional(producer_id) => {
                open.entry(producer_id).or_default().push(entry.batch.0);
            }
            Content::Marker(producer_id, is_commit) => {
                let batches = open.remove(&producer_id).unwrap_or_default();
                ended.push(Ended {
                    producer_id,
                    first_offset: batches.first().copied().unwrap_or(entry.offset),
                    marker: entry.offset,
                    is_commit,
                    batches,
                });
            }
        }
    }
    (ended, open)
}

/// `deleted` came before `entries`, and can no longer be read.
pub fn check(log: &Log, deleted: &[Entry], entries: &[Entry]) {
    let (start, end) = (log.start_offset(), log.end_offset());
    let history: Vec<Entry> = deleted.iter().chain(entries).cloned().collect();
    let (all_ended, all_open) = transactions(&history);
    let (ended, open) = transactions(entries);
    for high_watermark in [start, (start + end) / 2, end] {
        log.set_high_watermark(high_watermark);
        let first_open =
            |open: &BTreeMap<i64, Vec<i64>>| open.values().map(|batches| batches[0]).min();
        let unreplicated = all_ended
            .iter()
            .filter(|each| each.marker >= high_watermark);
        let lowest = unreplicated
            .map(|each| each.first_offset)
            .chain(first_open(&all_open))
            .min();
        let clamped = |offset: Option<i64>| {
            offset.map_or(high_watermark, |offset| {
                offset.max(start).min(high_watermark)
            })
        };
        let (lowest, highest) = (clamped(lowest), clamped(first_open(&open)));
        let stable = log.last_stable_offset();
        assert!(
            (lowest..=highest).contains(&stable),
            "last stable offset {stable} under {high_watermark}, not in {lowest}..={highest}"
        );
    }
    let aborted: BTreeSet<(i64, i64)> = ended
        .iter()
        .filter(|each| !each.is_commit)
        .flat_map(|each| each.batches.iter().map(|batch| (each.producer_id, *batch)))
        .collect();
    let is_visible = |entry: &Entry| match entry.content {
        Content::Plain => true,
        Content::Transactional(producer_id) => !aborted.contains(&(producer_id, entry.batch.0)),
        Content::Marker(..) => false,
    };
    let stable = log.last_stable_offset();
    let (mut seen, mut offset, mut scratch) = (Vec::new(), start, Scratch::default());
    loop {
        let read = log.read(offset, 500, stable, true).unwrap();
        let found = log.aborted_transactions(offset, &read).unwrap();
        let Some(slice) = read.slice else {
            assert_eq!(found, []);
            break;
        };
        let bytes = slice.read().unwrap();
        let whole: Vec<_> = Batches::new(&bytes).map_while(Result::ok).collect();
        let (first, last) = (&whole[0].header, &whole[whole.len() - 1].header);
        let named: BTreeSet<(i64, i64)> = found
            .iter()
            .map(|entry| (entry.producer_id, entry.last_offset))
            .collect();
        assert_eq!(named.len(), found.len(), "one is named twice");
        let of = |ended: &[Ended], overlaps: &dyn Fn(&Ended) -> bool| -> BTreeSet<(i64, i64)> {
            let aborted = ended
                .iter()
                .filter(|each| !each.is_commit && overlaps(each));
            aborted
                .map(|each| (each.producer_id, each.marker))
                .collect()
        };
        let read_range = first.base_offset..=last.base_offset;
        let needed = of(&ended, &|each| {
            each.batches.iter().any(|batch| read_range.contains(batch))
        });
        let allowed = of(&all_ended, &|each| {
            each.first_offset <= last.base_offset && each.marker >= offset
        });
        assert!(
            needed.is_subset(&named),
            "{needed:?} are in what was read, {named:?} named"
        );
        assert!(
            named.is_subset(&allowed),
            "{named:?} named, {allowed:?} overlap"
        );
        let list: Vec<_> = found
            .iter()
            .map(|entry| AbortedTransaction {
                producer_id: entry.producer_id,
                first_offset: entry.first_offset,
            })
            .collect();
        let mut consumer = AbortedTransactions::new(&list);
        for batch in &whole {
            offset = batch.header.last_offset() + 1;
            if consumer
                .is_visible(batch, &Limits::default(), &mut scratch)
                .unwrap()
            {
                for record in Records::new(batch, &Limits::default(), &mut scratch).unwrap() {
                    let record = record.unwrap();
                    if record.offset >= start {
                        seen.push((record.offset, record.value.unwrap().to_vec()));
                    }
                }
            }
        }
    }
    let read = entries.iter().filter(|entry| entry.offset < offset);
    let expected: Vec<_> = read
        .filter(|entry| is_visible(entry))
        .map(|entry| (entry.offset, entry.value.clone()))
        .collect();
    assert_eq!(seen, expected, "what a reader of committed records sees");
    let mut left = entries
        .iter()
        .filter(|entry| (offset..stable).contains(&entry.offset));
    assert!(
        left.all(|entry| entry.batch.1 >= stable),
        "the reader stopped at {offset}"
    );
}

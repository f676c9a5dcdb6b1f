//! The records of a log as somebody wrote them, and as they are read back.

use super::steps::IN_TRANSACTIONS;
use crate::log::Log;
use crate::records::{Batch, Batches, Limits, Records, Scratch};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    Plain,
    /// Of this producer's transaction.
    Transactional(i64),
    /// Ends it; true is a commit.
    Marker(i64, bool),
}

impl Content {
    pub fn of(producer: Option<(i64, i32)>) -> Self {
        match producer {
            Some((id, _)) if id >= IN_TRANSACTIONS => Self::Transactional(id),
            _ => Self::Plain,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub offset: i64,
    pub value: Vec<u8>,
    pub epoch: i32,
    pub producer: Option<(i64, i32)>,
    pub content: Content,
    /// The first and the last offset of its batch.
    pub batch: (i64, i64),
}

/// Everything from `start` on.
pub fn read_all(log: &Log, start: i64) -> Vec<Entry> {
    let (mut entries, mut offset, mut scratch) = (Vec::new(), start, Scratch::default());
    while let Some(slice) = log.read(offset, 700, i64::MAX, true).unwrap().slice {
        let bytes = slice.read().unwrap();
        for batch in Batches::new(&bytes).map_while(Result::ok) {
            let Batch { header, .. } = batch;
            for record in Records::new(&batch, &Limits::default(), &mut scratch).unwrap() {
                let record = record.unwrap();
                if record.offset >= start {
                    let at = (record.offset - header.base_offset) as i32;
                    let content = match (header.is_control(), header.is_transactional()) {
                        (true, _) => {
                            Content::Marker(header.producer_id, record.key.unwrap()[3] == 1)
                        }
                        (false, true) => Content::Transactional(header.producer_id),
                        (false, false) => Content::Plain,
                    };
                    entries.push(Entry {
                        offset: record.offset,
                        value: record.value.unwrap().to_vec(),
                        epoch: header.leader_epoch,
                        content,
                        producer: (header.has_producer_id() && !header.is_control())
                            .then(|| (header.producer_id, header.base_sequence + at)),
                        batch: (header.base_offset, header.last_offset()),
                    });
                }
            }
            offset = header.last_offset() + 1;
        }
    }
    entries
}

//! Reads a log for old consumers (Fetch 0 to 3): the stored bytes, or messages of their format.
//!
//! Some batches have nothing for them: the markers of transactions, and what compaction left of a batch before the offset that is asked for.
//! A consumer that got nothing would ask for the same offset again, for ever. So reading goes on until there are messages, or the log ends.

use super::error::{Context, LogError, Result};
use super::files::FileSlice;
use super::log::Log;
use super::scan::{LOOKUP_BYTES, Scan};
use crate::records::convert::is_too_new;
use crate::records::{DownConverted, Limits, Scratch, Wanted, down_convert};

/// The bytes to send, or a refusal.
#[derive(Debug, PartialEq, Eq)]
pub enum Converted {
    /// The bytes that were fetched: their consumer reads every batch in them.
    Same,
    Messages(DownConverted),
    /// There is something to convert, and the caller would not have it.
    Refused,
}

/// One partition of an old Fetch.
pub struct OldFetch<'a> {
    pub log: &'a Log,
    pub offset: i64,
    /// The consumer's limit for the partition.
    pub bytes_max: u64,
    /// The offset where the consumer stops.
    pub upper_bound: i64,
    /// The greatest format that it reads: 0 or 1.
    pub magic: i8,
    pub may_convert: bool,
}

/// The room that the partitions of one answer share.
pub struct Room {
    /// Bytes of the log that may yet be read for the answer, beyond what was fetched for it.
    pub bytes: u64,
    /// Nothing is in the answer so far: the first batch comes whole, however large.
    pub is_empty: bool,
}

impl OldFetch<'_> {
    /// Takes of the stretch that was `fetched` what the consumer can read, and if that is nothing, of what follows.
    ///
    /// Memory: a stretch of the log, its messages (as many bytes, or one batch), and one batch unpacked.
    pub fn convert(&self, fetched: &FileSlice, room: &mut Room) -> Result<Converted> {
        if !has_newer(fetched, self.magic)? {
            room.is_empty &= fetched.length == 0;
            return Ok(Converted::Same);
        }
        if !self.may_convert {
            return Ok(Converted::Refused);
        }
        let mut messages = self.messages_of(fetched)?;
        let (mut length, mut from) = (fetched.length, self.offset);
        while let (true, Some(next)) = (messages.bytes.is_empty(), messages.next_offset) {
            if next <= from {
                // Offsets that go back are damage that no checksum covers: it would be read for ever.
                break;
            }
            from = next;
            room.bytes += length;
            let Some(following) = self.following(next, room)? else {
                break;
            };
            length = following.length;
            room.bytes = room.bytes.saturating_sub(length);
            messages = self.messages_of(&following)?;
        }
        room.is_empty &= messages.bytes.is_empty();
        Ok(Converted::Messages(messages))
    }

    fn messages_of(&self, stretch: &FileSlice) -> Result<DownConverted> {
        let wanted = Wanted {
            magic: self.magic,
            first_offset: self.offset,
            bytes_max: usize::try_from(stretch.length).unwrap_or(usize::MAX),
        };
        let bytes = stretch.read().context("read", &stretch.file.path())?;
        Ok(down_convert(
            &bytes,
            &wanted,
            &Limits::default(),
            &mut Scratch::default(),
        )?)
    }

    /// The records that the log has from `offset` on, as far as there is room.
    fn following(&self, offset: i64, room: &Room) -> Result<Option<FileSlice>> {
        let bytes_max = self.bytes_max.min(room.bytes);
        let read = self
            .log
            .read(offset, bytes_max, self.upper_bound, room.is_empty)?;
        Ok(read.slice)
    }
}

/// By headers alone: most stretches are of one format.
fn has_newer(slice: &FileSlice, magic: i8) -> Result<bool> {
    let end = slice.position + slice.length;
    let mut scan = Scan::new(&slice.file, slice.position, end, LOOKUP_BYTES)?;
    loop {
        match scan.next_header() {
            Ok(Some(batch)) if is_too_new(batch.header.magic, magic) => return Ok(true),
            Ok(Some(_)) => {}
            // The last batch may be cut off.
            Ok(None) | Err(LogError::Corrupt { .. }) => return Ok(false),
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::log::tests::{Folder, append};
    use crate::log::{AppendOrigin, LogConfig};
    use crate::records::{Marker, Outcome};

    /// Segments 0 and 1 are a marker each, and segment 2 is a record.
    fn marked_log() -> (Folder, Arc<Log>) {
        let folder = Folder::new();
        let config = LogConfig {
            segment_bytes: 100,
            ..LogConfig::default()
        };
        let log = folder.open(config, true);
        let marker = Marker {
            outcome: Outcome::Commit,
            coordinator_epoch: 0,
        };
        for _ in 0..2 {
            let mut batch = marker.batch(1, 0, 1000).unwrap();
            log.append(&mut batch, 0, AppendOrigin::Coordinator, 1000)
                .unwrap();
        }
        append(&log, &["a long value"], 1000);
        assert_eq!(log.segments().len(), 3);
        (folder, log)
    }

    fn asked(log: &Log, upper_bound: i64) -> OldFetch<'_> {
        OldFetch {
            log,
            offset: 0,
            bytes_max: 1,
            upper_bound,
            magic: 1,
            may_convert: true,
        }
    }

    /// The messages for who asks from the first marker on.
    fn messages(log: &Log, upper_bound: i64, room: &mut Room) -> DownConverted {
        let fetched = log.read(0, 1, upper_bound, true).unwrap().slice.unwrap();
        match asked(log, upper_bound).convert(&fetched, room).unwrap() {
            Converted::Messages(messages) => messages,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_follows_markers_is_converted_as_far_as_it_may_be_read() {
        let (_folder, log) = marked_log();
        for (upper_bound, offset, records) in [(1, 1, 0), (2, 2, 0), (3, 3, 1)] {
            let mut room = Room {
                bytes: 0,
                is_empty: true,
            };
            let made = messages(&log, upper_bound, &mut room);
            assert_eq!((made.next_offset, made.records), (Some(offset), records));
            assert_eq!(
                (made.bytes.is_empty(), records == 0),
                (room.is_empty, room.is_empty)
            );
        }
    }

    /// Only where there is nothing yet the first batch comes whole.
    #[test]
    fn what_follows_markers_has_the_room_that_is_left() {
        let (_folder, log) = marked_log();
        let mut room = Room {
            bytes: 0,
            is_empty: false,
        };
        let made = messages(&log, 3, &mut room);
        assert_eq!((made.records, made.bytes.len()), (0, 0));
    }

    /// Markers at 0, 1 and 2, of which the last says that it is at 0: behind both is 1 again.
    #[test]
    fn offsets_that_go_back_are_not_read_for_ever() {
        let folder = Folder::new();
        let log = folder.open(LogConfig::default(), true);
        let marker = Marker {
            outcome: Outcome::Commit,
            coordinator_epoch: 0,
        };
        let mut starts = Vec::new();
        for _ in 0..3 {
            let mut batch = marker.batch(1, 0, 1000).unwrap();
            starts.push(log.size_bytes());
            log.append(&mut batch, 0, AppendOrigin::Coordinator, 1000)
                .unwrap();
        }
        let path = log.segments()[0].file.path();
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[starts[2] as usize..][..8].copy_from_slice(&[0; 8]);
        std::fs::write(&path, bytes).unwrap();
        let mut room = Room {
            bytes: 1000,
            is_empty: true,
        };
        let fetched = log.read(1, 1000, i64::MAX, true).unwrap().slice.unwrap();
        let asked = OldFetch {
            offset: 1,
            bytes_max: 1000,
            ..asked(&log, i64::MAX)
        };
        let Converted::Messages(made) = asked.convert(&fetched, &mut room).unwrap() else {
            panic!("markers are left out");
        };
        assert_eq!((made.bytes.len(), made.next_offset), (0, Some(1)));
    }
}

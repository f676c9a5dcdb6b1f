//! Memory for records that do not lie in a batch as they are read: packed ones, and those of old formats.

use super::batch::{BatchHeader, HEADER_BYTES};
use super::compression::{Codec, Decompressor};
use super::error::RecordError;
use super::message_set::{self, Room, Source, Unpacked};

/// The greatest sizes that are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// A batch as it is stored, header included (`max.message.bytes` of the topic).
    pub batch_bytes_max: usize,
    /// The records of a compressed batch when they are decompressed. Kafka has no such limit, since it decompresses as
    /// a stream; 128 MiB is far beyond what clients build and small beside a machine's memory.
    pub decompressed_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            batch_bytes_max: i32::MAX as usize,
            decompressed_bytes_max: 128 << 20,
        }
    }
}

/// Memory that decompression reuses from batch to batch. One per thread; not shared.
#[derive(Default)]
pub struct Scratch {
    decompressor: Decompressor,
    room: Room,
}

/// A scratch that held more than this is made small again: one huge batch must not stay in memory.
const SCRATCH_BYTES_KEPT_MAX: usize = 4 << 20;

/// The records of a batch of any format, as format 2 writes them.
#[derive(Clone, Copy, Debug)]
pub struct Opened<'a> {
    /// The batch's own, or what a message (set) would have.
    pub header: BatchHeader,
    pub records: &'a [u8],
    /// They are not where the batch is: positions in them do not count in it.
    pub is_unpacked: bool,
}

impl Scratch {
    /// The records of the last batch that `is_unpacked`.
    pub(super) fn unpacked(&self) -> &[u8] {
        &self.room.records
    }

    /// The records of a batch, unpacked if need be. Of a message set the checksums inside are compared; outer checksums never are.
    pub fn open<'a>(
        &'a mut self,
        batch: &'a [u8],
        header: &BatchHeader,
        limits: &Limits,
    ) -> Result<Opened<'a>, RecordError> {
        if header.is_message() {
            let header = self
                .unpack(batch, header, Source::Log, limits.decompressed_bytes_max)?
                .header;
            return Ok(Opened {
                header,
                records: &self.room.records,
                is_unpacked: true,
            });
        }
        let records = batch.get(HEADER_BYTES..).unwrap_or_default();
        let codec = header.compression()?;
        if codec == Codec::None {
            return Ok(Opened {
                header: *header,
                records,
                is_unpacked: false,
            });
        }
        self.shrink();
        self.room.records.clear();
        self.decompressor
            .decompress(
                codec,
                records,
                limits.decompressed_bytes_max,
                &mut self.room.records,
            )
            .map_err(|error| error.moved_by(HEADER_BYTES))?;
        Ok(Opened {
            header: *header,
            records: &self.room.records,
            is_unpacked: true,
        })
    }

    /// A message (set) as records of format 2, left in [`unpacked`](Self::unpacked).
    pub(super) fn unpack(
        &mut self,
        message: &[u8],
        header: &BatchHeader,
        source: Source,
        decompressed_bytes_max: usize,
    ) -> Result<Unpacked, RecordError> {
        self.shrink();
        message_set::unpack(
            message,
            header,
            source,
            decompressed_bytes_max,
            &mut self.decompressor,
            &mut self.room,
        )
    }

    fn shrink(&mut self) {
        for memory in [&mut self.room.records, &mut self.room.set] {
            if memory.capacity() > SCRATCH_BYTES_KEPT_MAX {
                *memory = Vec::new();
            }
        }
    }
}

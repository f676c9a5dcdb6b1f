//! Control batches: the markers that end a transaction in a partition (KIP-98).
//!
//! A marker is the only record of a batch with the control and transactional flags. Its key is version (i16) and type
//! (i16: 0 abort, 1 commit), its value version (i16) and the coordinator's epoch (i32), all big-endian. Unknown types (and what
//! follows the known fields of a later version) are passed over, as in Kafka.

use super::decode::Record;
use super::encode::{BatchBuilder, BatchOptions};
use super::error::RecordError;

const VERSION: i16 = 0;

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Abort = 0,
    Commit = 1,
}

/// A transaction's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marker {
    pub outcome: Outcome,
    /// The epoch of the coordinator that decided; a partition refuses an older one than it has seen.
    pub coordinator_epoch: i32,
}

impl Marker {
    /// The marker in a record of a control batch; `None` for a control record of another type.
    pub fn read(record: &Record<'_>) -> Result<Option<Self>, RecordError> {
        let short =
            |field: &'static str| RecordError::invalid(field, 0, "too short for a control record");
        let key = record
            .key
            .and_then(|key| key.first_chunk::<4>())
            .ok_or_else(|| short("key"))?;
        let [version_0, version_1, type_0, type_1] = *key;
        if i16::from_be_bytes([version_0, version_1]) < 0 {
            return Err(RecordError::invalid(
                "key",
                0,
                "a control record of a negative version",
            ));
        }
        let outcome = match i16::from_be_bytes([type_0, type_1]) {
            0 => Outcome::Abort,
            1 => Outcome::Commit,
            _ => return Ok(None),
        };
        let value = record
            .value
            .and_then(|value| value.first_chunk::<6>())
            .ok_or_else(|| short("value"))?;
        let [_, _, epoch @ ..] = *value;
        Ok(Some(Marker {
            outcome,
            coordinator_epoch: i32::from_be_bytes(epoch),
        }))
    }

    /// A control batch with this marker for the producer. Offset and leader epoch are stamped by the log.
    pub fn batch(
        &self,
        producer_id: i64,
        producer_epoch: i16,
        timestamp_ms: i64,
    ) -> Result<Vec<u8>, RecordError> {
        let options = BatchOptions {
            producer_id,
            producer_epoch,
            transactional: true,
            control: true,
            ..BatchOptions::default()
        };
        let [version_0, version_1] = VERSION.to_be_bytes();
        let [type_0, type_1] = (self.outcome as i16).to_be_bytes();
        let mut value = [0; 6];
        value[2..].copy_from_slice(&self.coordinator_epoch.to_be_bytes());
        let mut builder = BatchBuilder::new(options);
        builder.append(
            timestamp_ms,
            Some(&[version_0, version_1, type_0, type_1]),
            Some(&value),
            &[],
        )?;
        builder.finish()
    }
}

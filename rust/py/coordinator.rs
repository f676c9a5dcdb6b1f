//! What coordinators keep in internal topics: small batches of records with keys, written one by one and read back as a whole.

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::buffer::Input;
use super::records::{BatchInfo, codec, record_error};
use crate::records::{
    BatchBuilder, BatchOptions, Batches, Limits, RecordError, Records, Scratch, check_crc,
};

/// Key and value; no value is a tombstone.
pub type NewRecord<'py> = (Bound<'py, PyBytes>, Option<Bound<'py, PyBytes>>);

/// One batch of `records`, all of one time. With a producer's id it is part of that producer's transaction.
pub fn batch(
    records: &[NewRecord<'_>],
    now_ms: i64,
    compression: &str,
    (producer_id, producer_epoch): (i64, i16),
) -> PyResult<Vec<u8>> {
    let mut builder = BatchBuilder::new(BatchOptions {
        codec: codec(compression)?,
        producer_id,
        producer_epoch,
        transactional: producer_id >= 0,
        ..BatchOptions::default()
    });
    let mut build = || {
        for (key, value) in records {
            let value = value.as_ref().map(|value| value.as_bytes());
            builder.append(now_ms, Some(key.as_bytes()), value, &[])?;
        }
        builder.finish()
    };
    build().map_err(|error| record_error(&error))
}

/// Offset, key and value.
type LoadedRecord = (i64, Option<Py<PyBytes>>, Option<Py<PyBytes>>);

/// The whole batches of a buffer with their records, control records too; what is cut off at its end is left out.
#[pyfunction]
fn decode_batches(py: Python<'_>, data: Input) -> PyResult<Vec<(BatchInfo, Vec<LoadedRecord>)>> {
    let (limits, mut scratch) = (Limits::default(), Scratch::default());
    let mut loaded = Vec::new();
    for batch in Batches::new(data.bytes(py)) {
        let batch = match batch {
            Err(error) if error.is_incomplete() => break,
            other => other.map_err(|error| record_error(&error))?,
        };
        let failed = |error: RecordError| record_error(&error.moved_by(batch.position));
        check_crc(batch.bytes, &batch.header).map_err(failed)?;
        let bytes = |bytes: Option<&[u8]>| bytes.map(|bytes| PyBytes::new(py, bytes).unbind());
        let mut records = Vec::new();
        for record in Records::new(&batch, &limits, &mut scratch).map_err(failed)? {
            let record = record.map_err(failed)?;
            records.push((record.offset, bytes(record.key), bytes(record.value)));
        }
        loaded.push((BatchInfo::new(batch.header, batch.position), records));
    }
    Ok(loaded)
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(decode_batches, module)?)
}

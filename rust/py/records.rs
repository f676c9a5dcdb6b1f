//! Record batches for Python: building, checking and reading them, and columns.

mod builder;
mod columns;
mod decoder;
mod format_07;
mod memory;
mod messages;
mod mirror;
mod reader;
mod rows;

pub use reader::BatchInfo;

use parking_lot::{Mutex, MutexGuard};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::buffer::Input;
use super::errors::kafka_error;
use crate::records::{self, Codec, Limits, Marker, Outcome, RecordError, Scratch};

/// The exception of `ottla.errors` for an error in records.
pub fn record_error(error: &RecordError) -> PyErr {
    kafka_error(error.code(), error.to_string())
}

/// The state of an object that is being used by one thread; an error if another one (or a finalizer that runs in the
/// middle) uses it. Waiting for it here could wait for a thread that waits for the interpreter lock.
fn exclusive<T>(state: &Mutex<T>) -> PyResult<MutexGuard<'_, T>> {
    state
        .try_lock()
        .ok_or_else(|| PyRuntimeError::new_err("used by two threads at once"))
}

pub fn codec(name: &str) -> PyResult<Codec> {
    Codec::from_name(name).ok_or_else(|| {
        let known = Codec::ALL.map(Codec::name).join(", ");
        PyValueError::new_err(format!("there is no codec '{name}'; there are {known}"))
    })
}

#[pyfunction]
fn crc32c(py: Python<'_>, data: Input) -> u32 {
    crate::checksum::crc32c(data.bytes(py))
}

#[pyfunction]
#[pyo3(signature = (batch, *, batch_bytes_max = Limits::default().batch_bytes_max, decompressed_bytes_max = Limits::default().decompressed_bytes_max))]
fn validate(
    py: Python<'_>,
    batch: Input,
    batch_bytes_max: usize,
    decompressed_bytes_max: usize,
) -> PyResult<reader::BatchInfo> {
    let limits = Limits {
        batch_bytes_max,
        decompressed_bytes_max,
    };
    let validated = records::validate(batch.bytes(py), &limits, &mut Scratch::default());
    validated
        .map(|validated| reader::BatchInfo::new(validated.header, 0))
        .map_err(|error| record_error(&error))
}

#[pyfunction]
#[pyo3(signature = (batch, base_offset, leader_epoch, append_time_ms = None))]
fn stamp<'py>(
    py: Python<'py>,
    batch: Input,
    base_offset: i64,
    leader_epoch: i32,
    append_time_ms: Option<i64>,
) -> PyResult<Bound<'py, PyBytes>> {
    let mut copy = batch.bytes(py).to_vec();
    let header = records::BatchHeader::parse(&copy).map_err(|error| record_error(&error))?;
    if header.is_message() {
        records::stamp_message(&mut copy, base_offset, append_time_ms);
    } else {
        records::stamp(&mut copy, base_offset, leader_epoch, append_time_ms);
    }
    Ok(PyBytes::new(py, &copy))
}

#[pyfunction]
fn marker_batch(
    py: Python<'_>,
    producer_id: i64,
    producer_epoch: i16,
    commit: bool,
    coordinator_epoch: i32,
    timestamp_ms: i64,
) -> PyResult<Bound<'_, PyBytes>> {
    let outcome = if commit {
        Outcome::Commit
    } else {
        Outcome::Abort
    };
    let batch = Marker {
        outcome,
        coordinator_epoch,
    }
    .batch(producer_id, producer_epoch, timestamp_ms);
    batch
        .map(|batch| PyBytes::new(py, &batch))
        .map_err(|error| record_error(&error))
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<builder::BatchBuilder>()?;
    module.add_class::<memory::ColumnBuffer>()?;
    module.add_class::<columns::Columns>()?;
    module.add_class::<decoder::ColumnDecoder>()?;
    module.add_class::<mirror::CopiedBatch>()?;
    module.add_class::<mirror::Copied>()?;
    module.add_class::<mirror::Mirror>()?;
    module.add_class::<reader::BatchInfo>()?;
    module.add_class::<reader::Record>()?;
    module.add_class::<reader::RecordReader>()?;
    module.add_class::<rows::RowEncoder>()?;
    messages::register(module)?;
    format_07::register(module)?;
    module.add_function(wrap_pyfunction!(crc32c, module)?)?;
    module.add_function(wrap_pyfunction!(validate, module)?)?;
    module.add_function(wrap_pyfunction!(stamp, module)?)?;
    module.add_function(wrap_pyfunction!(marker_batch, module)?)?;
    module.add_function(wrap_pyfunction!(builder::encode_batch, module)?)?;
    module.add_function(wrap_pyfunction!(decoder::decode_columns, module)?)?;
    module.add_function(wrap_pyfunction!(reader::read_batches, module)?)
}

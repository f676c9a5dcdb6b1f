//! Batches for a partition of another cluster, for Python.

use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::{exclusive, record_error};
use crate::py::buffer::Input;
use crate::records::{self, AbortedTransaction, AbortedTransactions, MirrorOptions};

/// See [`records::Mirrored`].
#[pyclass(frozen, get_all, module = "ottla._core")]
pub struct CopiedBatch {
    data: Py<PyBytes>,
    records: i32,
    first_offset: i64,
    last_offset: i64,
    is_unopened: bool,
}

impl CopiedBatch {
    fn new(py: Python<'_>, made: records::Mirrored) -> PyResult<Py<Self>> {
        let batch = Self {
            data: PyBytes::new(py, &made.bytes).unbind(),
            records: made.records,
            first_offset: made.first_offset,
            last_offset: made.last_offset,
            is_unopened: made.is_unopened,
        };
        Py::new(py, batch)
    }
}

#[pymethods]
impl CopiedBatch {
    fn __repr__(&self) -> String {
        let Self {
            records,
            first_offset,
            last_offset,
            ..
        } = self;
        format!("<CopiedBatch of {records} records from {first_offset} to {last_offset}>")
    }
}

/// The batches that a mirror made of a buffer, and the offset after all that it looked at.
#[pyclass(frozen, get_all, module = "ottla._core")]
pub struct Copied {
    batches: Vec<Py<CopiedBatch>>,
    next_offset: i64,
}

/// See [`records::Mirror`].
#[pyclass(frozen, module = "ottla._core")]
pub struct Mirror(Mutex<records::Mirror>);

#[pymethods]
impl Mirror {
    #[new]
    #[pyo3(signature = (*, transactional = false, join_bytes = 16 << 10, header = None, stops = Vec::new()))]
    fn new(
        transactional: bool,
        join_bytes: usize,
        header: Option<(Vec<u8>, Vec<u8>)>,
        stops: Vec<Vec<u8>>,
    ) -> Self {
        let options = MirrorOptions {
            transactional,
            join_bytes,
            header,
            stops,
        };
        Mirror(Mutex::new(records::Mirror::new(options)))
    }

    #[pyo3(signature = (data, offset, aborted = Vec::new()))]
    fn copy(
        &self,
        py: Python<'_>,
        data: Input,
        offset: i64,
        aborted: Vec<(i64, i64)>,
    ) -> PyResult<Copied> {
        let aborted: Vec<_> = aborted
            .into_iter()
            .map(|(producer_id, first_offset)| AbortedTransaction {
                producer_id,
                first_offset,
            })
            .collect();
        let mut mirror = exclusive(&self.0)?;
        let (batches, next_offset) = mirror
            .copy(data.bytes(py), offset, AbortedTransactions::new(&aborted))
            .map_err(|error| record_error(&error))?;
        let batches = batches.into_iter().map(|made| CopiedBatch::new(py, made));
        Ok(Copied {
            batches: batches.collect::<PyResult<_>>()?,
            next_offset,
        })
    }
}

//! Batches for a partition of another cluster, for Python.

use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::{exclusive, record_error};
use crate::py::buffer::Input;
use crate::records::{self, AbortedTransaction, AbortedTransactions, MirrorOptions};

/// A batch, how many records it has, the offsets of the first and the last of them where they come from, and whether it travels unopened.
type Mirrored<'py> = (Bound<'py, PyBytes>, i32, i64, i64, bool);

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
    fn copy<'py>(
        &self,
        py: Python<'py>,
        data: Input,
        offset: i64,
        aborted: Vec<(i64, i64)>,
    ) -> PyResult<(Vec<Mirrored<'py>>, i64)> {
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
        let batches = batches
            .into_iter()
            .map(|made| {
                let bytes = PyBytes::new(py, &made.bytes);
                (
                    bytes,
                    made.records,
                    made.first_offset,
                    made.last_offset,
                    made.is_unopened,
                )
            })
            .collect();
        Ok((batches, next_offset))
    }
}

//! The decoder of columns for Python: buffers in, columns out.

use parking_lot::Mutex;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::columns::Columns;
use super::{exclusive, record_error};
use crate::py::buffer::Input;
use crate::records::{
    self, AbortedTransaction, Chunk, ColumnOptions, Limits, Pause, Selection, TimestampOverflow,
    TimestampUnit,
};

#[pyclass(frozen, module = "ottla._core")]
pub struct ColumnDecoder(Mutex<State>);

struct State {
    decoder: records::ColumnDecoder,
    buffer: Option<Input>,
    /// The buffer has no more than its error: `position` says where the damaged batch starts, and the caller may feed what
    /// follows it.
    is_damaged: bool,
}

impl State {
    /// The next full chunk; none when the buffer has no more for one. Rows before damage come before its error.
    ///
    /// Other Python threads run meanwhile, unless the buffer could be written by them.
    fn next_chunk(&mut self, py: Python<'_>) -> PyResult<Option<Chunk>> {
        let (decoder, Some(buffer)) = (&mut self.decoder, &self.buffer) else {
            return Ok(None);
        };
        let pause = match buffer.bytes_detached() {
            Some(bytes) => py.detach(|| decoder.decode(bytes)),
            None => decoder.decode(buffer.bytes(py)),
        };
        match pause {
            Ok(Pause::ChunkFull) => Ok(Some(self.decoder.take_chunk())),
            Ok(Pause::BufferDone | Pause::End) => {
                self.buffer = None;
                Ok(None)
            }
            Err(_) if self.decoder.rows() > 0 => Ok(Some(self.decoder.take_chunk())),
            Err(error) => {
                self.is_damaged = true;
                Err(record_error(&error))
            }
        }
    }
}

#[expect(
    clippy::too_many_arguments,
    reason = "the options of a decoder, by name"
)]
fn options(
    start_offset: i64,
    end_offset: i64,
    columns: Option<Vec<String>>,
    rows_max: usize,
    bytes_max: usize,
    timestamp_unit: &str,
    timestamps: &str,
    check_crc: bool,
    decompressed_bytes_max: usize,
) -> PyResult<ColumnOptions> {
    let selection = match columns {
        None => Selection::ALL,
        Some(names) => {
            let mut selection = Selection::NONE;
            if let Some(unknown) = names.iter().find(|name| !selection.add(name)) {
                let known = Selection::NAMES.join(", ");
                return Err(PyValueError::new_err(format!(
                    "there is no column '{unknown}'; there are {known}"
                )));
            }
            selection
        }
    };
    let timestamp_unit = match timestamp_unit {
        "ms" => TimestampUnit::Milliseconds,
        "us" => TimestampUnit::Microseconds,
        _ => {
            return Err(PyValueError::new_err(format!(
                "the unit of timestamps is ms or us, not '{timestamp_unit}'"
            )));
        }
    };
    let timestamp_overflow = match timestamps {
        "error" => TimestampOverflow::Error,
        "null" => TimestampOverflow::Null,
        _ => {
            return Err(PyValueError::new_err(format!(
                "what becomes of timestamps that do not fit is error or null, not '{timestamps}'"
            )));
        }
    };
    let limits = Limits {
        decompressed_bytes_max,
        ..Limits::default()
    };
    Ok(ColumnOptions {
        selection,
        timestamp_unit,
        timestamp_overflow,
        start_offset,
        end_offset,
        rows_max,
        bytes_max,
        check_crc,
        limits,
    })
}

fn transactions(aborted: Option<Vec<(i64, i64)>>) -> Option<Vec<AbortedTransaction>> {
    let transaction = |(producer_id, first_offset)| AbortedTransaction {
        producer_id,
        first_offset,
    };
    aborted.map(|aborted| aborted.into_iter().map(transaction).collect())
}

#[pymethods]
impl ColumnDecoder {
    #[new]
    #[pyo3(signature = (*, start_offset = 0, end_offset = i64::MAX, columns = None, rows_max = 50_000, bytes_max = 8 << 20,
        timestamp_unit = "us", timestamps = "error", check_crc = true, decompressed_bytes_max = Limits::default().decompressed_bytes_max))]
    #[expect(
        clippy::too_many_arguments,
        reason = "the options of a decoder, by name"
    )]
    fn new(
        start_offset: i64,
        end_offset: i64,
        columns: Option<Vec<String>>,
        rows_max: usize,
        bytes_max: usize,
        timestamp_unit: &str,
        timestamps: &str,
        check_crc: bool,
        decompressed_bytes_max: usize,
    ) -> PyResult<Self> {
        let options = options(
            start_offset,
            end_offset,
            columns,
            rows_max,
            bytes_max,
            timestamp_unit,
            timestamps,
            check_crc,
            decompressed_bytes_max,
        )?;
        Ok(ColumnDecoder(Mutex::new(State {
            decoder: records::ColumnDecoder::new(options),
            buffer: None,
            is_damaged: false,
        })))
    }

    #[pyo3(signature = (data, aborted = None))]
    fn feed(&self, data: Input, aborted: Option<Vec<(i64, i64)>>) -> PyResult<()> {
        let mut state = exclusive(&self.0)?;
        if state.buffer.is_some() && !state.is_damaged {
            return Err(PyValueError::new_err(
                "the last buffer has more: call next until it gives None",
            ));
        }
        state.decoder.start_buffer(transactions(aborted).as_deref());
        state.buffer = Some(data);
        state.is_damaged = false;
        Ok(())
    }

    fn next(&self, py: Python<'_>) -> PyResult<Option<Columns>> {
        let chunk = exclusive(&self.0)?.next_chunk(py)?;
        chunk.map(|chunk| Columns::new(py, chunk)).transpose()
    }

    fn finish(&self, py: Python<'_>) -> PyResult<Option<Columns>> {
        let chunk = {
            let decoder = &mut exclusive(&self.0)?.decoder;
            (decoder.rows() > 0).then(|| decoder.take_chunk())
        };
        chunk.map(|chunk| Columns::new(py, chunk)).transpose()
    }

    fn seek(&self, offset: i64) -> PyResult<()> {
        let mut state = exclusive(&self.0)?;
        state.buffer = None;
        state.decoder.seek(offset);
        Ok(())
    }

    #[getter]
    fn next_offset(&self) -> PyResult<i64> {
        Ok(exclusive(&self.0)?.decoder.next_offset())
    }

    #[getter]
    fn position(&self) -> PyResult<usize> {
        Ok(exclusive(&self.0)?.decoder.position())
    }

    #[getter]
    fn done(&self) -> PyResult<bool> {
        Ok(exclusive(&self.0)?.decoder.is_done())
    }
}

#[pyfunction]
#[pyo3(signature = (data, *, aborted = None, start_offset = 0, end_offset = i64::MAX, columns = None, rows_max = 50_000,
    bytes_max = 8 << 20, timestamp_unit = "us", timestamps = "error", check_crc = true,
    decompressed_bytes_max = Limits::default().decompressed_bytes_max))]
#[expect(
    clippy::too_many_arguments,
    reason = "the options of a decoder, by name"
)]
pub fn decode_columns(
    py: Python<'_>,
    data: Input,
    aborted: Option<Vec<(i64, i64)>>,
    start_offset: i64,
    end_offset: i64,
    columns: Option<Vec<String>>,
    rows_max: usize,
    bytes_max: usize,
    timestamp_unit: &str,
    timestamps: &str,
    check_crc: bool,
    decompressed_bytes_max: usize,
) -> PyResult<Vec<Columns>> {
    let decoder = ColumnDecoder::new(
        start_offset,
        end_offset,
        columns,
        rows_max,
        bytes_max,
        timestamp_unit,
        timestamps,
        check_crc,
        decompressed_bytes_max,
    )?;
    decoder.feed(data, aborted)?;
    let mut all = Vec::new();
    while let Some(chunk) = decoder.next(py)? {
        all.push(chunk);
    }
    all.extend(decoder.finish(py)?);
    Ok(all)
}

//! The row encoder for Python: a column is a tuple of buffers, as pyarrow's `Array.buffers()` gives them.

use parking_lot::Mutex;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::PyBytes;

use super::{codec, exclusive};
use crate::py::buffer::Input;
use crate::py::errors::kafka_error;
use crate::records::BatchOptions;
use crate::records::rows::{
    self, BinaryRows, FixedRows, HeaderRows, RowError, RowOptions, Rows, Stop, TopicOf,
};

/// Validity, positions, data, and the row of the buffers with which the column starts.
type Binary = (Option<Input>, Option<Input>, Option<Input>, usize);
/// Validity, data, first row.
type Fixed = (Option<Input>, Option<Input>, usize);
/// Validity, positions, first row; the names, the values, and how many of them there are.
type Lists = (Option<Input>, Option<Input>, usize, Binary, Binary, usize);

/// Topic, partition, number of records, batch.
type Taken<'py> = (String, i32, i32, Bound<'py, PyBytes>);

#[derive(FromPyObject)]
enum Topic {
    Every(PyBackedStr),
    Column(Binary),
}

fn bytes<'a>(py: Python<'a>, input: &'a Option<Input>) -> &'a [u8] {
    input.as_ref().map_or(&[], |input| input.bytes(py))
}

fn some<'a>(py: Python<'a>, input: &'a Option<Input>) -> Option<&'a [u8]> {
    input.as_ref().map(|input| input.bytes(py))
}

fn binary<'a>(
    py: Python<'a>,
    name: &'static str,
    (validity, positions, data, offset): &'a Binary,
    rows: usize,
) -> Result<BinaryRows<'a>, RowError> {
    BinaryRows::new(
        name,
        some(py, validity),
        bytes(py, positions),
        bytes(py, data),
        *offset,
        rows,
    )
}

fn fixed<'a, const SIZE: usize>(
    py: Python<'a>,
    name: &'static str,
    (validity, data, offset): &'a Fixed,
    rows: usize,
) -> Result<FixedRows<'a, SIZE>, RowError> {
    FixedRows::new(name, some(py, validity), bytes(py, data), *offset, rows)
}

fn headers<'a>(
    py: Python<'a>,
    (validity, positions, offset, names, values, count): &'a Lists,
    rows: usize,
) -> Result<HeaderRows<'a>, RowError> {
    HeaderRows::new(
        some(py, validity),
        bytes(py, positions),
        *offset,
        rows,
        binary(py, "headers.key", names, *count)?,
        binary(py, "headers.value", values, *count)?,
        *count,
    )
}

fn row_error(error: &RowError) -> PyErr {
    match error.code() {
        Some(code) => kafka_error(code, error.to_string()),
        None => PyValueError::new_err(error.to_string()),
    }
}

#[pyclass(frozen, module = "ottla._core")]
pub struct RowEncoder(Mutex<rows::RowEncoder>);

#[pymethods]
impl RowEncoder {
    #[new]
    #[pyo3(signature = (*, compression = "none", level = None, producer_id = -1, producer_epoch = -1, transactional = false,
        batch_bytes, record_bytes_max, memory_bytes, seed = 0))]
    #[expect(clippy::too_many_arguments, reason = "settings, by name")]
    fn new(
        compression: &str,
        level: Option<i32>,
        producer_id: i64,
        producer_epoch: i16,
        transactional: bool,
        batch_bytes: usize,
        record_bytes_max: usize,
        memory_bytes: usize,
        seed: usize,
    ) -> PyResult<Self> {
        let batch = BatchOptions {
            codec: codec(compression)?,
            level,
            producer_id,
            producer_epoch,
            transactional,
            ..BatchOptions::default()
        };
        let options = RowOptions {
            batch,
            batch_bytes,
            record_bytes_max,
            memory_bytes,
            seed,
        };
        Ok(RowEncoder(Mutex::new(rows::RowEncoder::new(options))))
    }

    fn add_topic(&self, name: &str, partition_count: i32) -> PyResult<()> {
        exclusive(&self.0)?
            .add_topic(name, partition_count)
            .map_err(|error| row_error(&error))
    }

    #[pyo3(signature = (rows, start, *, now_ms, topic, value, key = None, partition = None, headers = None, timestamp = None))]
    #[expect(clippy::too_many_arguments, reason = "the columns, by name")]
    fn append(
        &self,
        py: Python<'_>,
        rows: usize,
        start: usize,
        now_ms: i64,
        topic: Topic,
        value: Binary,
        key: Option<Binary>,
        partition: Option<Fixed>,
        headers: Option<Lists>,
        timestamp: Option<Fixed>,
    ) -> PyResult<(usize, Option<String>)> {
        let table = || {
            let table = Rows {
                count: rows,
                topic: match &topic {
                    Topic::Every(name) => TopicOf::Every(name),
                    Topic::Column(column) => TopicOf::Column(binary(py, "topic", column, rows)?),
                },
                key: key
                    .as_ref()
                    .map(|column| binary(py, "key", column, rows))
                    .transpose()?,
                value: binary(py, "value", &value, rows)?,
                partition: partition
                    .as_ref()
                    .map(|column| fixed(py, "partition", column, rows))
                    .transpose()?,
                headers: headers
                    .as_ref()
                    .map(|column| self::headers(py, column, rows))
                    .transpose()?,
                timestamp: timestamp
                    .as_ref()
                    .map(|column| fixed(py, "timestamp", column, rows))
                    .transpose()?,
                now_ms,
            };
            Ok(table)
        };
        let table = table().map_err(|error: RowError| row_error(&error))?;
        let stop = exclusive(&self.0)?.append(&table, start);
        match stop.map_err(|error| row_error(&error))? {
            Stop::Done => Ok((rows, None)),
            Stop::Full { next_row } => Ok((next_row, None)),
            Stop::NewTopic { next_row, topic } => Ok((next_row, Some(topic))),
        }
    }

    fn flush(&self) -> PyResult<()> {
        exclusive(&self.0)?
            .flush()
            .map_err(|error| row_error(&error))
    }

    fn take<'py>(&self, py: Python<'py>) -> PyResult<Vec<Taken<'py>>> {
        let closed = exclusive(&self.0)?.take();
        let each = |closed: rows::Closed| {
            let batch = PyBytes::new(py, &closed.batch);
            (closed.topic, closed.partition, closed.records, batch)
        };
        Ok(closed.into_iter().map(each).collect())
    }
}

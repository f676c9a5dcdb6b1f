//! `Reader`: how far each kind of reader may see of a log.

use pyo3::prelude::*;

use crate::log;

/// A kind of reader of a log (Kafka's FetchIsolation).
#[pyclass(frozen, eq, hash, skip_from_py_object, module = "ottla._core")]
#[pyo3(rename_all = "SCREAMING_SNAKE_CASE")]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reader {
    Replica,
    Consumer,
    Committed,
}

impl From<Reader> for log::Reader {
    fn from(reader: Reader) -> Self {
        match reader {
            Reader::Replica => Self::Replica,
            Reader::Consumer => Self::Consumer,
            Reader::Committed => Self::Committed,
        }
    }
}

impl Reader {
    /// The object that Python knows: the same one each time.
    pub fn object<'py>(self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let name = match self {
            Self::Replica => pyo3::intern!(py, "REPLICA"),
            Self::Consumer => pyo3::intern!(py, "CONSUMER"),
            Self::Committed => pyo3::intern!(py, "COMMITTED"),
        };
        py.get_type::<Self>().getattr(name)
    }
}

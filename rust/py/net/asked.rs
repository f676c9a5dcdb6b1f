//! The partitions that a Produce names, for Python and for the answer.
//!
//! A name that Python has seen need not be made again: looking up a string that is the very one in a
//! table costs neither a hash nor a comparison.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};

use crate::wire::named::{Named, Recent};
use crate::wire::produce::PartitionData;

/// The partitions of a Produce, in its order.
pub struct Asked {
    named: Named,
    /// The same for Python, once it has asked for all of them.
    tuple: OnceLock<Py<PyTuple>>,
}

static RECENT: Recent<Asked> = Recent::new();

impl From<Named> for Asked {
    fn from(named: Named) -> Self {
        Self {
            named,
            tuple: OnceLock::new(),
        }
    }
}

impl AsRef<Named> for Asked {
    fn as_ref(&self) -> &Named {
        &self.named
    }
}

impl Asked {
    /// The partitions that a decoded body names.
    pub fn of(body: &[u8], partitions: &[PartitionData]) -> Arc<Self> {
        RECENT.of(body, partitions)
    }

    /// All partitions for Python, which are made once.
    pub fn tuple(&self, py: Python<'_>) -> PyResult<Py<PyTuple>> {
        if let Some(tuple) = self.tuple.get() {
            return Ok(tuple.clone_ref(py));
        }
        let made = self.some(py, 0..self.len())?.unbind();
        Ok(self.tuple.get_or_init(|| made).clone_ref(py))
    }

    /// The partitions of `range` for Python, as far as there are any.
    pub fn some<'py>(&self, py: Python<'py>, range: Range<usize>) -> PyResult<Bound<'py, PyTuple>> {
        let mut last: Option<(&Range<usize>, Bound<'py, PyString>)> = None;
        let tuples = self.named.some(range).iter().map(|asked| {
            let name = match &last {
                Some((at, name)) if **at == asked.topic => name.clone(),
                _ => {
                    let topic = self.named.topic(&asked.topic);
                    PyString::new(py, std::str::from_utf8(topic).unwrap_or_default())
                }
            };
            last = Some((&asked.topic, name.clone()));
            (name, asked.number, asked.has_records).into_pyobject(py)
        });
        PyTuple::new(py, tuples.collect::<PyResult<Vec<_>>>()?)
    }

    pub fn len(&self) -> usize {
        self.named.len()
    }

    /// Topic, number, and whether there are records.
    pub fn partitions(&self) -> impl Iterator<Item = (&[u8], i32, bool)> {
        self.named.partitions()
    }
}

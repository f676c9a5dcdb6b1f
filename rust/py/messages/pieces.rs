//! Large messages in pieces, between which the loop serves others.
//!
//! What has more array items than may be made at once is left for later, array by array: a decoded list is filled from
//! where its items begin, the bytes of an encoded one come between those around it.

use std::collections::HashMap;

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::build::{self, Builder};
use super::take::{self, Pace, Taken};
use super::{PyWireError, Schema};
use crate::py::buffer::Input;
use crate::py::errors::wire_error;
use crate::py::net::Request;
use crate::wire::schema::Plan;
use crate::wire::walk;

impl Schema {
    fn plan(&self, version: i16) -> PyResult<&Plan> {
        self.schema
            .plan(version)
            .map_err(|error| wire_error(&error))
    }
}

/// A message that is being decoded; it is whole when `go_on` has returned False.
#[pyclass(module = "ottla._core")]
pub struct Decoding {
    schema: Py<Schema>,
    version: i16,
    buffer: Py<PyAny>,
    items: usize,
    items_count: usize,
    message: Py<PyAny>,
    later: Vec<build::Later>,
    ends: HashMap<usize, usize>,
}

impl Decoding {
    pub(super) fn begin(
        schema: Bound<'_, Schema>,
        version: i16,
        buffer: &Bound<'_, PyAny>,
        items: usize,
    ) -> PyResult<Self> {
        let py = schema.py();
        let known = schema.get();
        let plan = known.plan(version)?;
        let input: Input = buffer.extract()?;
        let mut builder = Builder {
            py,
            tables: &known.tables,
            buffer,
            start: 0,
            // No item is made before the caller knows how many there are.
            items_left: 0,
            later: Vec::new(),
            ends: HashMap::new(),
            is_frozen: buffer.is_instance_of::<Request>() || buffer.is_instance_of::<PyBytes>(),
        };
        let (message, items_count) =
            walk::decode_counted(plan, input.bytes(py), known.items_max, &mut builder)
                .map_err(PyWireError::into_py)?;
        Ok(Self {
            version,
            buffer: buffer.clone().unbind(),
            items,
            items_count,
            message: message.unbind(),
            later: builder.later,
            ends: builder.ends,
            schema: schema.unbind(),
        })
    }
}

#[pymethods]
impl Decoding {
    #[getter]
    fn message(&self, py: Python<'_>) -> Py<PyAny> {
        self.message.clone_ref(py)
    }

    /// How many items all arrays of the message have together.
    #[getter]
    fn items_count(&self) -> usize {
        self.items_count
    }

    /// Decodes some more items; False if none are left.
    fn go_on(&mut self, py: Python<'_>) -> PyResult<bool> {
        let known = self.schema.get();
        let plan = known.plan(self.version)?;
        let buffer = self.buffer.bind(py);
        let input: Input = buffer.extract()?;
        let bytes = input.bytes(py);
        let mut builder = Builder {
            py,
            tables: &known.tables,
            buffer,
            start: 0,
            items_left: self.items,
            later: std::mem::take(&mut self.later),
            is_frozen: false,
            ends: std::mem::take(&mut self.ends),
        };
        while builder.items_left > 0 {
            let Some(array) = builder.later.pop() else {
                break;
            };
            let count = array.count.min(builder.items_left);
            builder.items_left -= count;
            let list = array.list.bind(py);
            let position = walk::decode_items(
                &array.item,
                plan.flexible,
                bytes,
                array.position,
                count,
                &mut builder,
                |_, value| Ok(list.append(value)?),
            )
            .map_err(PyWireError::into_py)?;
            if count < array.count {
                builder.later.push(build::Later {
                    position,
                    count: array.count - count,
                    ..array
                });
            }
        }
        (self.later, self.ends) = (builder.later, builder.ends);
        Ok(!self.later.is_empty())
    }
}

/// Bytes of an encoded message that are kept in one block: what is larger stays where it was written.
const BLOCK_BYTES: usize = 64 << 10;

enum Part {
    Bytes(Vec<u8>),
    /// Items of a list, from this index on.
    Items(take::Later, usize),
}

/// A message that is being encoded; `bytes` has it when `go_on` has returned False.
///
/// It is kept in blocks, so that a message of many megabytes is copied nowhere in one go.
#[pyclass(module = "ottla._core")]
pub struct Encoding {
    schema: Py<Schema>,
    version: i16,
    items: usize,
    blocks: Vec<Vec<u8>>,
    /// What follows, the next one last.
    parts: Vec<Part>,
}

impl Encoding {
    pub(super) fn begin(
        schema: Bound<'_, Schema>,
        version: i16,
        message: &Bound<'_, PyAny>,
        items: usize,
    ) -> PyResult<Self> {
        let known = schema.get();
        let plan = known.plan(version)?;
        let pace = Pace::new(items);
        let taken = Taken::of(message.clone(), &known.tables, &pace);
        let bytes = walk::encode(plan, &taken).map_err(PyWireError::into_py)?;
        let mut encoding = Self {
            version,
            items,
            blocks: Vec::new(),
            parts: Vec::new(),
            schema: schema.unbind(),
        };
        encoding.push(bytes, pace.into_parts().1);
        encoding.join();
        Ok(encoding)
    }

    /// What was written follows, with the items in it that were left for later.
    fn push(&mut self, mut bytes: Vec<u8>, later: Vec<take::Later>) {
        for array in later.into_iter().rev() {
            let behind = bytes.split_off(array.position);
            self.parts.push(Part::Bytes(behind));
            self.parts.push(Part::Items(array, 0));
        }
        self.parts.push(Part::Bytes(bytes));
    }

    /// Takes over the bytes up to the next items.
    fn join(&mut self) {
        while let Some(part) = self.parts.pop() {
            match (part, self.blocks.last_mut()) {
                (Part::Bytes(bytes), Some(block)) if block.len() + bytes.len() <= BLOCK_BYTES => {
                    block.extend_from_slice(&bytes);
                }
                (Part::Bytes(bytes), _) => self.blocks.push(bytes),
                (items, _) => return self.parts.push(items),
            }
        }
    }

    /// The blocks of the message, which has none afterwards.
    pub fn take(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.blocks)
    }
}

#[pymethods]
impl Encoding {
    /// The message; what there is of it if some is left.
    #[getter]
    fn bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.blocks.concat())
    }

    /// Whether all of it was small enough to be encoded at once.
    #[getter]
    fn is_done(&self) -> bool {
        self.parts.is_empty()
    }

    /// Encodes some more items; False if none are left.
    fn go_on(&mut self, py: Python<'_>) -> PyResult<bool> {
        let schema = self.schema.clone_ref(py);
        let known = schema.get();
        let plan = known.plan(self.version)?;
        let mut left = self.items;
        while left > 0 {
            let Some(Part::Items(array, from)) = self.parts.pop() else {
                break;
            };
            let to = array.count.min(from.saturating_add(left));
            let pace = Pace::new(left - (to - from));
            let list = Taken::of(array.list.bind(py).clone(), &known.tables, &pace);
            let bytes = walk::encode_items(plan, &array.item, &list, from..to)
                .map_err(PyWireError::into_py)?;
            if to < array.count {
                self.parts.push(Part::Items(array, to));
            }
            let (unused, later) = pace.into_parts();
            left = unused;
            self.push(bytes, later);
            self.join();
        }
        Ok(!self.parts.is_empty())
    }
}

//! Python objects out of what is decoded.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::vec::Drain;

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyList, PyMemoryView, PySlice, PyString, PyTuple};

use super::{Default, PyWireError, Table};
use crate::wire::schema::Op;
use crate::wire::walk::{Build, Long};

pub(super) struct Builder<'a, 'py> {
    pub py: Python<'py>,
    pub tables: &'a [Table],
    /// What is decoded, and where in it the message begins.
    pub buffer: &'a Bound<'py, PyAny>,
    pub start: usize,
    /// How many more items are decoded at once.
    pub items_left: usize,
    /// The arrays whose items are decoded later.
    pub later: Vec<Later>,
    /// Whether nobody can write to the buffer: then other threads may run while items are checked.
    pub is_frozen: bool,
    /// Where long arrays end, by where they begin.
    pub ends: HashMap<usize, usize>,
}

/// Items that are checked without letting other threads run: less than a tenth of a millisecond.
const ITEMS_CHECKED_AT_ONCE: usize = 2_000;

/// The items of an array that are not decoded yet.
pub(super) struct Later {
    /// What they are appended to.
    pub list: Py<PyList>,
    pub item: Arc<Op>,
    pub position: usize,
    pub count: usize,
}

impl<'py> Build for Builder<'_, 'py> {
    type Value = Bound<'py, PyAny>;
    type Error = PyWireError;

    fn null(&mut self) -> Self::Value {
        self.py.None().into_bound(self.py)
    }

    fn bool(&mut self, value: bool) -> Self::Value {
        PyBool::new(self.py, value).to_owned().into_any()
    }

    fn int(&mut self, value: i64) -> Result<Self::Value, PyWireError> {
        match value.into_pyobject(self.py) {
            Ok(value) => Ok(value.into_any()),
            Err(never) => match never {},
        }
    }

    fn float(&mut self, value: f64) -> Self::Value {
        PyFloat::new(self.py, value).into_any()
    }

    fn text(&mut self, value: &str) -> Self::Value {
        PyString::new(self.py, value).into_any()
    }

    fn bytes(&mut self, value: &[u8]) -> Self::Value {
        PyBytes::new(self.py, value).into_any()
    }

    fn records(&mut self, range: Range<usize>) -> Result<Self::Value, PyWireError> {
        let view = PyMemoryView::from(self.buffer)?;
        // A buffer is never longer than isize::MAX.
        let (start, end) = (self.start + range.start, self.start + range.end);
        Ok(view.get_item(PySlice::new(self.py, start as isize, end as isize, 1))?)
    }

    fn list(&mut self, items: Drain<'_, Self::Value>) -> Result<Self::Value, PyWireError> {
        Ok(PyList::new(self.py, items)?.into_any())
    }

    fn later(
        &mut self,
        item: &Arc<Op>,
        position: usize,
        count: usize,
    ) -> Result<Option<Self::Value>, PyWireError> {
        if let Some(left) = self.items_left.checked_sub(count) {
            self.items_left = left;
            return Ok(None);
        }
        let list = PyList::empty(self.py);
        self.later.push(Later {
            list: list.clone().unbind(),
            item: Arc::clone(item),
            position,
            count,
        });
        Ok(Some(list.into_any()))
    }

    fn apart<R: Send>(&mut self, items: usize, work: impl FnOnce() -> R + Send) -> R {
        if self.is_frozen && items > ITEMS_CHECKED_AT_ONCE {
            self.py.detach(work)
        } else {
            work()
        }
    }

    fn met(&mut self, long: Vec<Long>) {
        let ends = long.into_iter().map(|array| (array.position, array.end));
        self.ends.extend(ends);
    }

    fn end_of(&self, position: usize) -> Option<usize> {
        self.ends.get(&position).copied()
    }

    fn structure(
        &mut self,
        id: usize,
        fields: Drain<'_, Self::Value>,
    ) -> Result<Self::Value, PyWireError> {
        let fields = PyTuple::new(self.py, fields)?;
        Ok(self.tables[id].class.bind(self.py).call1(fields)?)
    }

    fn default(&mut self, id: usize, slot: usize) -> Result<Self::Value, PyWireError> {
        Ok(match &self.tables[id].fields[slot].default {
            Default::Object(object) => object.bind(self.py).clone(),
            Default::EmptyList => PyList::empty(self.py).into_any(),
            Default::Class(class) => class.bind(self.py).call0()?,
        })
    }
}

//! Python objects to encode.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyInt, PyList, PyString, PyTuple};

use super::{Default, PyWireError, Table};
use crate::py::buffer::Input;
use crate::wire::WireError;
use crate::wire::schema::Op;
use crate::wire::walk::Take;

/// How much is encoded at once, and what is left for later.
pub(super) struct Pace {
    items_left: Cell<usize>,
    later: RefCell<Vec<Later>>,
}

impl Pace {
    pub fn new(items: usize) -> Self {
        Self {
            items_left: Cell::new(items),
            later: RefCell::default(),
        }
    }

    pub fn into_parts(self) -> (usize, Vec<Later>) {
        (self.items_left.into_inner(), self.later.into_inner())
    }
}

/// A list whose items are not encoded yet.
pub(super) struct Later {
    pub list: Py<PyAny>,
    pub item: Arc<Op>,
    /// Where in what was written they belong.
    pub position: usize,
    pub count: usize,
}

pub(super) struct Taken<'a, 'py> {
    object: Bound<'py, PyAny>,
    tables: &'a [Table],
    pace: &'a Pace,
}

impl<'a, 'py> Taken<'a, 'py> {
    pub fn of(object: Bound<'py, PyAny>, tables: &'a [Table], pace: &'a Pace) -> Self {
        Self {
            object,
            tables,
            pace,
        }
    }

    fn inside(&self, object: Bound<'py, PyAny>) -> Self {
        Self::of(object, self.tables, self.pace)
    }
}

impl Take for Taken<'_, '_> {
    type Error = PyWireError;

    fn field(&self, id: usize, slot: usize) -> Result<Self, PyWireError> {
        let name = self.tables[id].fields[slot].name.bind(self.object.py());
        match self.object.getattr(name) {
            Ok(value) => Ok(self.inside(value)),
            Err(error) => {
                let class = self.tables[id].class.bind(self.object.py());
                if self.object.is_instance(class)? {
                    return Err(error.into());
                }
                let found = self.object.get_type();
                Err(
                    PyTypeError::new_err(format!("{} is needed, not {found}", class.name()?))
                        .into(),
                )
            }
        }
    }

    fn is_null(&self) -> bool {
        self.object.is_none()
    }

    fn is_default(&self, id: usize, slot: usize) -> Result<bool, PyWireError> {
        let py = self.object.py();
        Ok(match &self.tables[id].fields[slot].default {
            Default::Object(object) => {
                self.object.is(object.bind(py)) || self.object.eq(object.bind(py))?
            }
            Default::EmptyList => !self.object.is_none() && self.object.len()? == 0,
            Default::Class(class) => self.object.eq(class.bind(py).call0()?)?,
        })
    }

    fn bool(&self) -> Result<bool, PyWireError> {
        match self.object.cast::<PyBool>() {
            Ok(value) => Ok(value.is_true()),
            Err(_) => Err(PyWireError::wrong_type(&self.object, "a bool")),
        }
    }

    fn int(&self) -> Result<i64, PyWireError> {
        if !self.object.is_instance_of::<PyInt>() {
            return Err(PyWireError::wrong_type(&self.object, "an int"));
        }
        self.object.extract().map_err(|_| {
            PyWireError::Wire(WireError::unwritable(
                "",
                "the number needs more than 64 bits",
            ))
        })
    }

    fn float(&self) -> Result<f64, PyWireError> {
        self.object
            .extract()
            .map_err(|_| PyWireError::wrong_type(&self.object, "a float"))
    }

    fn text<R>(&self, use_it: impl FnOnce(&[u8]) -> R) -> Result<R, PyWireError> {
        match self.object.cast::<PyString>() {
            Ok(text) => Ok(use_it(text.to_str()?.as_bytes())),
            Err(_) => Err(PyWireError::wrong_type(&self.object, "a str")),
        }
    }

    fn bytes<R>(&self, use_it: impl FnOnce(&[u8]) -> R) -> Result<R, PyWireError> {
        if let Ok(bytes) = self.object.cast::<PyBytes>() {
            return Ok(use_it(bytes.as_bytes()));
        }
        match self.object.extract::<Input>() {
            Ok(input) => Ok(use_it(input.bytes(self.object.py()))),
            Err(_) => Err(PyWireError::wrong_type(&self.object, "bytes")),
        }
    }

    fn count(&self) -> Result<usize, PyWireError> {
        match self.object.cast::<PyList>() {
            Ok(list) => Ok(list.len()),
            Err(_) => match self.object.cast::<PyTuple>() {
                Ok(tuple) => Ok(tuple.len()),
                Err(_) => Err(PyWireError::wrong_type(&self.object, "a list")),
            },
        }
    }

    fn item(&self, index: usize) -> Result<Self, PyWireError> {
        let item = match self.object.cast::<PyList>() {
            Ok(list) => list.get_item(index)?,
            Err(_) => self.object.get_item(index)?,
        };
        Ok(self.inside(item))
    }

    fn is_later(&self, item: &Arc<Op>, position: usize, count: usize) -> bool {
        match self.pace.items_left.get().checked_sub(count) {
            Some(left) => {
                self.pace.items_left.set(left);
                false
            }
            None => {
                self.pace.later.borrow_mut().push(Later {
                    list: self.object.clone().unbind(),
                    item: Arc::clone(item),
                    position,
                    count,
                });
                true
            }
        }
    }
}

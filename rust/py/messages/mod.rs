//! Declared messages for Python: a schema handed over once, then instances of its classes to bytes
//! and back.
//!
//! `Schema` takes the declaration as nested tuples (python/ottla/wire/schema.py makes them), keeps
//! per structure its class, the interned names of its fields and their defaults, and implements the
//! walker's two traits (rust/wire/walk/mod.rs) for Python objects.

mod build;
mod pieces;
mod take;

use std::collections::HashMap;
use std::sync::Arc;

use build::Builder;
pub use pieces::{Decoding, Encoding};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple, PyType};
use take::{Pace, Taken};

use super::buffer::Input;
use super::errors::wire_error;
use crate::wire::WireError;
use crate::wire::primitives::ITEMS_MAX;
use crate::wire::schema::{self, Field, Kind, Struct, Versions};
use crate::wire::walk::{self, Inside};

/// One message (a request's or a response's body) in all its versions.
#[pyclass(frozen, module = "ottla._core")]
pub struct Schema {
    schema: schema::Schema,
    /// The most array items of one message.
    items_max: usize,
    tables: Vec<Table>,
}

/// What Python knows of a structure.
struct Table {
    class: Py<PyType>,
    fields: Vec<Entry>,
}

struct Entry {
    name: Py<PyString>,
    default: Default,
}

enum Default {
    Object(Py<PyAny>),
    EmptyList,
    /// Called for a new one each time.
    Class(Py<PyAny>),
}

#[pymethods]
impl Schema {
    /// `declaration` is the root structure: (name, class, fields); each field (name, type, versions, nullable, tag, tagged, ignorable, default), where
    /// versions are (min, max) pairs, a type is a name, ("array", type) or a structure, and a default is a value, or a class to be called.
    #[new]
    #[pyo3(signature = (declaration, versions, flexible_from, items_max=ITEMS_MAX))]
    fn new(
        declaration: &Bound<'_, PyTuple>,
        versions: (i16, i16),
        flexible_from: i16,
        items_max: usize,
    ) -> PyResult<Self> {
        let mut tables = Vec::new();
        let root = structure(declaration, &mut tables)?;
        Ok(Self {
            schema: schema::Schema::new(root, range(versions), flexible_from),
            items_max,
            tables,
        })
    }

    /// The message's bytes in this version.
    fn encode<'py>(
        &self,
        py: Python<'py>,
        version: i16,
        message: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let plan = self
            .schema
            .plan(version)
            .map_err(|error| wire_error(&error))?;
        let pace = Pace::new(usize::MAX);
        let message = Taken::of(message.clone(), &self.tables, &pace);
        let bytes = walk::encode(plan, &message).map_err(PyWireError::into_py)?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// The message that starts at the buffer's byte `start`.
    #[pyo3(signature = (version, buffer, start = 0))]
    fn decode<'py>(
        &self,
        py: Python<'py>,
        version: i16,
        buffer: &Bound<'py, PyAny>,
        start: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        let plan = self
            .schema
            .plan(version)
            .map_err(|error| wire_error(&error))?;
        let input: Input = buffer.extract()?;
        let bytes = input.bytes(py);
        let bytes = bytes
            .get(start..)
            .ok_or_else(|| PyValueError::new_err("start lies beyond the buffer"))?;
        let mut builder = Builder {
            py,
            tables: &self.tables,
            buffer,
            start,
            items_left: usize::MAX,
            later: Vec::new(),
            is_frozen: false,
            ends: HashMap::new(),
        };
        walk::decode(plan, bytes, self.items_max, &mut builder).map_err(PyWireError::into_py)
    }

    /// The same in pieces of so many array items.
    fn encoding(
        slf: Bound<'_, Self>,
        version: i16,
        message: &Bound<'_, PyAny>,
        items: usize,
    ) -> PyResult<Encoding> {
        Encoding::begin(slf, version, message, items)
    }

    /// The same in pieces of so many array items; all of it is checked at once.
    fn decoding(
        slf: Bound<'_, Self>,
        version: i16,
        buffer: &Bound<'_, PyAny>,
        items: usize,
    ) -> PyResult<Decoding> {
        Decoding::begin(slf, version, buffer, items)
    }
}

fn range((min, max): (i16, i16)) -> Versions {
    Versions { min, max }
}

fn structure(declaration: &Bound<'_, PyTuple>, tables: &mut Vec<Table>) -> PyResult<Arc<Struct>> {
    let (name, class, declared): (String, Bound<'_, PyType>, Vec<Bound<'_, PyTuple>>) =
        declaration.extract()?;
    let id = tables.len();
    tables.push(Table {
        class: class.unbind(),
        fields: Vec::with_capacity(declared.len()),
    });
    let mut fields = Vec::with_capacity(declared.len());
    for field in declared {
        type Declared<'py> = (
            Bound<'py, PyString>,
            Bound<'py, PyAny>,
            (i16, i16),
            (i16, i16),
            Option<u32>,
            (i16, i16),
            bool,
            Bound<'py, PyAny>,
        );
        let (name, kind_of, versions, nullable, tag, tagged, ignorable, default) =
            field.extract::<Declared<'_>>()?;
        let default = if default.is_instance_of::<PyList>() {
            Default::EmptyList
        } else if default.is_instance_of::<PyType>() {
            Default::Class(default.unbind())
        } else {
            Default::Object(default.unbind())
        };
        fields.push(Field {
            name: name.to_string(),
            kind: kind(&kind_of, tables)?,
            versions: range(versions),
            nullable: range(nullable),
            tagged: tag.map(|tag| (tag, range(tagged))),
            ignorable,
        });
        tables[id].fields.push(Entry {
            name: PyString::intern(name.py(), name.to_str()?).unbind(),
            default,
        });
    }
    Ok(Arc::new(Struct { name, id, fields }))
}

fn kind(declared: &Bound<'_, PyAny>, tables: &mut Vec<Table>) -> PyResult<Kind> {
    if let Ok(name) = declared.cast::<PyString>() {
        return Ok(match name.to_str()? {
            "bool" => Kind::Bool,
            "int8" => Kind::Int8,
            "int16" => Kind::Int16,
            "int32" => Kind::Int32,
            "int64" => Kind::Int64,
            "float64" => Kind::Float64,
            "uuid" => Kind::Uuid,
            "string" => Kind::String,
            "bytes" => Kind::Bytes,
            "records" => Kind::Records,
            other => {
                return Err(PyValueError::new_err(format!(
                    "{other} is no type of a message"
                )));
            }
        });
    }
    let declared = declared.cast::<PyTuple>()?;
    if declared.len() == 2 {
        return Ok(Kind::Array(Box::new(kind(&declared.get_item(1)?, tables)?)));
    }
    Ok(Kind::Struct(structure(declared, tables)?))
}

/// An error of the bytes or the message, or of Python itself.
enum PyWireError {
    Wire(WireError),
    Python(PyErr),
}

impl PyWireError {
    fn into_py(self) -> PyErr {
        match self {
            PyWireError::Wire(error) => wire_error(&error),
            PyWireError::Python(error) => error,
        }
    }

    fn wrong_type(object: &Bound<'_, PyAny>, wanted: &'static str) -> Self {
        let found = object.get_type().to_string();
        PyWireError::Wire(WireError::unwritable(
            "",
            format!("{wanted} is needed, not {found}"),
        ))
    }
}

impl From<WireError> for PyWireError {
    fn from(error: WireError) -> Self {
        PyWireError::Wire(error)
    }
}

impl From<PyErr> for PyWireError {
    fn from(error: PyErr) -> Self {
        PyWireError::Python(error)
    }
}

impl Inside for PyWireError {
    fn inside(self, outer: &str, index: Option<usize>) -> Self {
        match self {
            PyWireError::Wire(error) => PyWireError::Wire(error.inside(outer, index)),
            python => python,
        }
    }
}

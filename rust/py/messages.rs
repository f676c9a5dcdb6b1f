//! Declared messages for Python: a schema handed over once, then instances of its classes to bytes and back.
//!
//! `Schema` takes the declaration as nested tuples (python/ottla/wire/schema.py makes them), keeps per structure its class, the interned names of its
//! fields and their defaults, and implements the walker's two traits (rust/wire/walk.rs) for Python objects.

use std::sync::Arc;
use std::vec::Drain;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt, PyList, PyString, PyTuple, PyType};

use super::buffer::Input;
use super::errors::wire_error;
use crate::wire::WireError;
use crate::wire::schema::{self, Field, Kind, Struct, Versions};
use crate::wire::walk::{self, Build, Inside, Take};

/// One message (a request's or a response's body) in all its versions.
#[pyclass(frozen, module = "ottla._core")]
pub struct Schema {
    schema: schema::Schema,
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
    fn new(
        declaration: &Bound<'_, PyTuple>,
        versions: (i16, i16),
        flexible_from: i16,
    ) -> PyResult<Self> {
        let mut tables = Vec::new();
        let root = structure(declaration, &mut tables)?;
        Ok(Self {
            schema: schema::Schema::new(root, range(versions), flexible_from),
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
        let message = Taken::of(message.clone(), &self.tables);
        let bytes = walk::encode(plan, &message).map_err(PyWireError::into_py)?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// The message that starts at the buffer's byte `start`.
    #[pyo3(signature = (version, buffer, start = 0))]
    fn decode<'py>(
        &self,
        py: Python<'py>,
        version: i16,
        buffer: Input,
        start: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        let plan = self
            .schema
            .plan(version)
            .map_err(|error| wire_error(&error))?;
        let bytes = buffer.bytes(py);
        let bytes = bytes
            .get(start..)
            .ok_or_else(|| PyValueError::new_err("start lies beyond the buffer"))?;
        let mut builder = Builder {
            py,
            tables: &self.tables,
        };
        walk::decode(plan, bytes, &mut builder).map_err(PyWireError::into_py)
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
            "bytes" | "records" => Kind::Bytes,
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

struct Builder<'a, 'py> {
    py: Python<'py>,
    tables: &'a [Table],
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

    fn list(&mut self, items: Drain<'_, Self::Value>) -> Result<Self::Value, PyWireError> {
        Ok(PyList::new(self.py, items)?.into_any())
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

struct Taken<'a, 'py> {
    object: Bound<'py, PyAny>,
    tables: &'a [Table],
}

impl<'a, 'py> Taken<'a, 'py> {
    fn of(object: Bound<'py, PyAny>, tables: &'a [Table]) -> Self {
        Self { object, tables }
    }
}

impl Take for Taken<'_, '_> {
    type Error = PyWireError;

    fn field(&self, id: usize, slot: usize) -> Result<Self, PyWireError> {
        let name = self.tables[id].fields[slot].name.bind(self.object.py());
        match self.object.getattr(name) {
            Ok(value) => Ok(Self::of(value, self.tables)),
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
        Ok(Self::of(item, self.tables))
    }
}

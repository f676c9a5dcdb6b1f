//! Any Python object with one contiguous run of bytes (bytes, bytearray, memoryview, mmap, a request's frame), read without a copy if nobody
//! can write to it meanwhile.

use pyo3::buffer::{PyBuffer, PyUntypedBuffer};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView};

/// An argument that is only read.
pub struct Input(Memory);

enum Memory {
    /// Exported by an object that nobody can write to; `is_bytes`: by a `bytes`, which nothing else can change either.
    Exported {
        buffer: PyBuffer<u8>,
        is_bytes: bool,
    },
    /// The content of an object that Python code may write to while the bytes are borrowed: a class constructor or a collection of garbage
    /// may run at any call into Python.
    Copied(Vec<u8>),
}

impl Input {
    /// The bytes, for as long as this thread is attached to Python.
    pub fn bytes<'a>(&'a self, _py: Python<'a>) -> &'a [u8] {
        match &self.0 {
            Memory::Copied(bytes) => bytes,
            Memory::Exported { buffer, .. } => slice(buffer),
        }
    }

    /// The same without being attached, if no other thread can change the bytes: a copy, or those of a `bytes`. What an mmap or another
    /// extension exports as read-only may still change under its view.
    pub fn bytes_detached(&self) -> Option<&[u8]> {
        match &self.0 {
            Memory::Copied(bytes) => Some(bytes),
            Memory::Exported { buffer, is_bytes } => is_bytes.then(|| slice(buffer)),
        }
    }
}

fn slice(buffer: &PyBuffer<u8>) -> &[u8] {
    if buffer.item_count() == 0 {
        return &[];
    }
    // SAFETY: the buffer is C-contiguous (checked in extract) and exported until `buffer` is dropped, so that its memory stays where it is.
    // Nobody writes to it while it is borrowed: only read-only exports of an owner that is read-only itself come here (`extract`), and
    // callers without the interpreter lock get those of `bytes` alone.
    unsafe { std::slice::from_raw_parts(buffer.buf_ptr().cast::<u8>(), buffer.item_count()) }
}

/// The object that owns the memory of a view; any other object owns its own.
fn owner<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    match object.cast::<PyMemoryView>() {
        Ok(view) => view.getattr("obj"),
        Err(_) => Ok(object.clone()),
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for Input {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let buffer = PyBuffer::<u8>::get(&object)?;
        if !buffer.is_c_contiguous() {
            return Err(pyo3::exceptions::PyBufferError::new_err(
                "the bytes must be contiguous",
            ));
        }
        if object.is_exact_instance_of::<PyBytes>() {
            let is_bytes = true;
            return Ok(Self(Memory::Exported { buffer, is_bytes }));
        }
        let owner = owner(&object)?;
        let is_bytes = owner.is_exact_instance_of::<PyBytes>();
        // A view that is read-only may be one of a bytearray. What kind of items the owner has does not matter: pyarrow exports int8.
        if is_bytes || buffer.readonly() && PyUntypedBuffer::get(&owner)?.readonly() {
            return Ok(Self(Memory::Exported { buffer, is_bytes }));
        }
        Ok(Self(Memory::Copied(buffer.to_vec(object.py())?)))
    }
}

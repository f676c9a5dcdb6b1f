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

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;

    /// The input that Python's expression is, and whether its bytes are the object's own memory.
    fn input(py: Python<'_>, expression: &CStr) -> PyResult<(Input, bool)> {
        let object = py.eval(expression, None, None)?;
        let input = object.extract::<Input>()?;
        let own = PyBuffer::<u8>::get(&object)?
            .buf_ptr()
            .cast::<u8>()
            .cast_const();
        let is_own = std::ptr::eq(input.bytes(py).as_ptr(), own);
        Ok((input, is_own))
    }

    #[test]
    fn bytes_are_read_where_they_are_with_and_without_the_interpreter() {
        Python::initialize();
        Python::attach(|py| {
            for expression in [
                c"b'abc'",
                c"memoryview(b'abc')",
                c"memoryview(b'xabcx')[1:4]",
            ] {
                let (input, is_own) = input(py, expression).unwrap();
                assert_eq!(input.bytes(py), b"abc");
                assert_eq!(input.bytes_detached(), Some(&b"abc"[..]));
                assert!(is_own, "{expression:?}");
            }
        });
    }

    /// A view that cannot be written to does not keep its bytearray from being written to.
    #[test]
    fn a_buffer_that_others_can_write_to_is_copied() {
        Python::initialize();
        Python::attach(|py| {
            let written = [
                c"bytearray(b'abc')",
                c"memoryview(bytearray(b'abc'))",
                c"memoryview(bytearray(b'abc')).toreadonly()",
            ];
            for expression in written {
                let (input, is_own) = input(py, expression).unwrap();
                assert_eq!(input.bytes(py), b"abc");
                assert_eq!(input.bytes_detached(), Some(&b"abc"[..]));
                assert!(!is_own, "{expression:?}");
            }
        });
    }

    /// Its file may change while no interpreter is held.
    #[test]
    fn a_map_of_a_file_is_not_read_without_the_interpreter() {
        Python::initialize();
        Python::attach(|py| {
            let map = c"__import__('mmap').mmap(-1, 3, access=1)";
            let (input, is_own) = input(py, map).unwrap();
            assert_eq!(input.bytes(py), [0; 3]);
            assert_eq!(input.bytes_detached(), None);
            assert!(is_own);
        });
    }

    #[test]
    fn odd_objects() {
        Python::initialize();
        Python::attach(|py| {
            assert!(input(py, c"b''").unwrap().0.bytes(py).is_empty());
            assert!(
                input(py, c"memoryview(b'')")
                    .unwrap()
                    .0
                    .bytes(py)
                    .is_empty()
            );
            for expression in [c"memoryview(b'abcdef')[::2]", c"'abc'", c"3", c"None"] {
                assert!(input(py, expression).is_err(), "{expression:?}");
            }
        });
    }
}

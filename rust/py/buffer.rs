//! Any Python object with one contiguous run of bytes (bytes, bytearray, memoryview, mmap, a request's frame), read without a copy.

use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;

/// An argument that is only read while the caller waits.
pub struct Input(PyBuffer<u8>);

impl Input {
    /// The bytes, for as long as this thread is attached to Python.
    pub fn bytes<'a>(&'a self, _py: Python<'a>) -> &'a [u8] {
        if self.0.item_count() == 0 {
            return &[];
        }
        // SAFETY: the buffer is C-contiguous (checked in extract) and exported until `self` is dropped, so that its memory stays where it is.
        // Nobody writes it while it is read: this thread holds the interpreter lock for 'a, and no thread of ours writes to memory that Python sees
        // without that lock.
        unsafe { std::slice::from_raw_parts(self.0.buf_ptr().cast::<u8>(), self.0.item_count()) }
    }

    /// The same without being attached, if the bytes cannot be written through this view.
    pub fn bytes_detached(&self) -> Option<&[u8]> {
        if !self.0.readonly() {
            return None;
        }
        if self.0.item_count() == 0 {
            return Some(&[]);
        }
        // SAFETY: as above, but without the lock: the owner (bytes, or a view that is read-only) promises that nobody writes while it is exported.
        Some(unsafe {
            std::slice::from_raw_parts(self.0.buf_ptr().cast::<u8>(), self.0.item_count())
        })
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
        Ok(Self(buffer))
    }
}

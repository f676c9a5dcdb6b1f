//! Memory of columns, which pyarrow and numpy use where it is, through the buffer protocol.

use std::ffi::{CStr, c_int, c_void};

use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

/// Memory of one kind that is never changed again.
pub enum Memory {
    Bytes(Vec<u8>),
    I32(Vec<i32>),
    I64(Vec<i64>),
}

impl Memory {
    /// Where it starts, its items, the size of one, and what one is in struct's notation.
    fn parts(&self) -> (*const c_void, usize, usize, &'static CStr) {
        match self {
            Memory::Bytes(items) => (items.as_ptr().cast(), items.len(), 1, c"B"),
            Memory::I32(items) => (items.as_ptr().cast(), items.len(), 4, c"i"),
            Memory::I64(items) => (items.as_ptr().cast(), items.len(), 8, c"q"),
        }
    }
}

#[pyclass(frozen, module = "ottla._core")]
pub struct ColumnBuffer {
    memory: Memory,
    /// The number of items, where the buffer protocol wants a pointer to it.
    shape: [ffi::Py_ssize_t; 1],
}

impl ColumnBuffer {
    pub fn new(py: Python<'_>, memory: Memory) -> PyResult<Py<Self>> {
        let shape = [memory.parts().1 as ffi::Py_ssize_t];
        Py::new(py, ColumnBuffer { memory, shape })
    }
}

#[pymethods]
impl ColumnBuffer {
    fn __len__(&self) -> usize {
        self.memory.parts().1
    }

    /// # Safety
    /// As for every implementation of the buffer protocol: `view` is a Py_buffer of the caller, to be filled.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("no view to fill"));
        }
        let this = slf.get();
        let (start, items, item_bytes, format) = this.memory.parts();
        let readonly = 1;
        // SAFETY: `view` is not null and the caller's; the memory is `items * item_bytes` long, is never changed or moved while the
        // object lives, and FillInfo keeps the object alive for the view. It refuses writable views itself.
        let filled = unsafe {
            ffi::PyBuffer_FillInfo(
                view,
                slf.as_ptr(),
                start.cast_mut(),
                (items * item_bytes) as ffi::Py_ssize_t,
                readonly,
                flags,
            )
        };
        if filled != 0 {
            return Err(PyErr::fetch(slf.py()));
        }
        // SAFETY: FillInfo has made `view` a valid view of single bytes. Each change keeps it valid: the format is static, `shape` lives
        // as long as the object, and its stride is the item size that is set here (FillInfo points strides at it).
        unsafe {
            (*view).itemsize = item_bytes as ffi::Py_ssize_t;
            if !(*view).format.is_null() {
                (*view).format = format.as_ptr().cast_mut();
            }
            if !(*view).shape.is_null() {
                (*view).shape = this.shape.as_ptr().cast_mut();
            }
        }
        Ok(())
    }
}

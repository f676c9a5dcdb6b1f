//! `Request`: one frame that started, and the ways to answer it.

use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

use super::hub::{Shared, address};
use crate::net::frames::Buffer;
use crate::net::hub::{Incoming, Ticket};
use crate::net::listeners::Origin;
use crate::py::buffer::Input;

#[pyclass(frozen, freelist = 64, module = "ottla._core")]
pub struct Request {
    hub: Shared,
    ticket: Ticket,
    frame: Buffer,
    body_start: usize,
    client_id: Option<Arc<str>>,
    origin: Arc<Origin>,
    answered: AtomicBool,
}

impl Request {
    pub fn new(hub: &Shared, incoming: Incoming) -> Self {
        Self {
            hub: Arc::clone(hub),
            ticket: incoming.ticket,
            frame: incoming.frame,
            body_start: incoming.header.body_start,
            client_id: incoming.client_id,
            origin: incoming.origin,
            answered: AtomicBool::new(false),
        }
    }

    fn answered(&self) {
        self.answered.store(true, Ordering::Relaxed);
    }
}

impl Drop for Request {
    /// A request that nobody answers would hold up its connection for ever: better an end that says why.
    fn drop(&mut self) {
        if !*self.answered.get_mut() {
            let reason = "the request was dropped without an answer";
            self.hub.lock().close_after(self.ticket, Some(reason));
        }
    }
}

#[pymethods]
impl Request {
    #[getter]
    fn api_key(&self) -> i16 {
        self.ticket.api_key
    }

    #[getter]
    fn api_version(&self) -> i16 {
        self.ticket.api_version
    }

    #[getter]
    fn correlation_id(&self) -> i32 {
        self.ticket.correlation_id
    }

    #[getter]
    fn client_id(&self) -> Option<&str> {
        self.client_id.as_deref()
    }

    #[getter]
    fn connection_id(&self) -> u64 {
        self.ticket.connection
    }

    #[getter]
    fn local_address(&self) -> (String, u16) {
        address(self.origin.local)
    }

    #[getter]
    fn peer_address(&self) -> (String, u16) {
        address(self.origin.peer)
    }

    #[getter]
    fn listener(&self) -> &str {
        &self.origin.listener
    }

    #[getter]
    fn is_waiting(&self) -> bool {
        self.hub.lock().is_waiting(self.ticket)
    }

    fn __len__(&self) -> usize {
        self.frame.len() - self.body_start
    }

    fn reply(&self, py: Python<'_>, body: Input) {
        self.answered();
        let bytes = body.bytes(py);
        let write = |to: &mut Vec<u8>| to.extend_from_slice(bytes);
        self.hub.lock().reply(self.ticket, write, Vec::new());
    }

    fn skip(&self) {
        self.answered();
        self.hub.lock().skip(self.ticket);
    }

    #[pyo3(signature = (reason = None))]
    fn close(&self, reason: Option<&str>) {
        self.answered();
        self.hub.lock().close_after(self.ticket, reason);
    }

    fn appended(&self) {
        self.hub.lock().appended(self.ticket);
    }

    /// The body's bytes for whoever reads buffers, without a copy.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("no view to fill"));
        }
        let request = slf.get();
        let body = &request.frame[request.body_start..];
        // SAFETY: the frame's memory neither moves nor is written to while the request lives, and the view holds a reference to the request;
        // the view is marked read-only, and filling it fails for a caller that wants to write.
        let filled = unsafe {
            ffi::PyBuffer_FillInfo(
                view,
                slf.as_ptr(),
                body.as_ptr().cast_mut().cast(),
                body.len() as ffi::Py_ssize_t,
                1,
                flags,
            )
        };
        if filled == 0 {
            Ok(())
        } else {
            Err(PyErr::fetch(slf.py()))
        }
    }
}

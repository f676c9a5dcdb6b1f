//! `Request`: one frame that started, and the ways to answer it.

use std::ffi::c_int;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, MutexGuard};
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use super::asked::Asked;
use super::completions::Outcome;
use super::fetch::{self, FetchRequest};
use super::fetch_row;
use super::hub::{Shared, address};
use super::produce::{self, ProduceRequest};
use crate::net::frames::Buffer;
use crate::net::hub::{Hub, Incoming, Reserved, Ticket};
use crate::net::listeners::Origin;
use crate::py::buffer::Input;
use crate::py::messages::Encoding;
use crate::traffic::Topics;
use crate::wire::fetch::ResponseHead;
use crate::wire::keys::{FETCH, PRODUCE};
use crate::wire::piece::Piece;

#[pyclass(frozen, freelist = 64, module = "ottla._core")]
pub struct Request {
    hub: Shared,
    ticket: Ticket,
    /// The frame, unless it is a Produce.
    frame: Option<Buffer>,
    /// A Produce's frame until `produce` takes it: the log will write to it, so nobody else may look at it meanwhile.
    produce_frame: Mutex<Option<Buffer>>,
    body_start: usize,
    body_length: usize,
    /// What `produce` and `fetch` found, for the answer.
    produced: OnceLock<Arc<Asked>>,
    /// Of a Produce, as far as they are there before its answer.
    results: Mutex<produce::Results>,
    fetched: OnceLock<Arc<fetch::Asked>>,
    client_id: Option<Arc<str>>,
    origin: Arc<Origin>,
    answered: AtomicBool,
    quota: Mutex<Option<Quota>>,
    /// Whether memory was asked for, for its answer.
    reserved: AtomicBool,
}

/// Asked once, when the answer is given: for how many milliseconds the connection is muted then.
struct Quota {
    throttle_ms: Py<PyAny>,
    /// Whether the answer begins with its throttle time.
    is_named: bool,
}

impl Request {
    pub fn new(hub: &Shared, incoming: Incoming) -> Self {
        let (ticket, body_start) = (incoming.ticket, incoming.header.body_start);
        let body_length = incoming.frame.len() - body_start;
        let (frame, produce_frame) = if ticket.api_key == PRODUCE {
            (None, Some(incoming.frame))
        } else {
            (Some(incoming.frame), None)
        };
        Self {
            hub: Arc::clone(hub),
            ticket,
            frame,
            produce_frame: Mutex::new(produce_frame),
            body_start,
            body_length,
            produced: OnceLock::new(),
            results: Mutex::default(),
            fetched: OnceLock::new(),
            client_id: incoming.client_id,
            origin: incoming.origin,
            answered: AtomicBool::new(false),
            quota: Mutex::new(None),
            reserved: AtomicBool::new(false),
        }
    }

    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The hub of its connection, locked.
    fn hub(&self) -> MutexGuard<'_, Hub<Outcome>> {
        self.hub.of(self.ticket.connection)
    }

    /// For how long the connection is muted with this answer, and whether the answer begins with that.
    fn throttled(&self, py: Python<'_>) -> PyResult<(u32, bool)> {
        // Taken before it is called, so that nothing is held meanwhile.
        let quota = self.quota.lock().take();
        let Some(quota) = quota else {
            return Ok((0, false));
        };
        let ms = quota.throttle_ms.call0(py)?.extract::<i32>(py)?;
        Ok((u32::try_from(ms).unwrap_or(0), quota.is_named))
    }

    /// Answers with a body that begins with `first`, which has the throttle time if there is one, and goes on with `rest`.
    fn answer(&self, py: Python<'_>, first: &[u8], rest: Vec<Piece>) -> PyResult<()> {
        let (throttle_ms, is_named) = self.throttled(py)?;
        self.answered();
        let write = |to: &mut Vec<u8>| {
            let start = to.len();
            to.extend_from_slice(first);
            if is_named && let Some(named) = to.get_mut(start..start + 4) {
                named.copy_from_slice(&throttle_ms.to_be_bytes());
            }
        };
        let mut hub = self.hub();
        hub.reply(self.ticket, write, rest);
        if self.reserved.swap(false, Ordering::Relaxed) {
            hub.release(self.ticket);
        }
        self.muted(&mut hub, throttle_ms);
        Ok(())
    }

    fn muted(&self, hub: &mut Hub<Outcome>, throttle_ms: u32) {
        if throttle_ms > 0 {
            hub.mute(self.ticket, throttle_ms);
        }
        if self.is_measured()
            && let Some(meter) = &mut hub.meter
        {
            meter.throttled(self.ticket.api_key, throttle_ms);
        }
    }

    /// The error codes of the answer.
    fn noted(&self, hub: &mut Hub<Outcome>, codes: impl Iterator<Item = i16>) {
        if self.is_measured()
            && let Some(meter) = &mut hub.meter
        {
            meter.noted(self.ticket.api_key, codes);
        }
    }

    /// Where the request counts for the topics that it names, if requests are measured.
    fn topics<'a>(&self, hub: &'a Hub<Outcome>) -> Option<&'a Arc<Topics>> {
        let meter = hub.meter.as_ref().filter(|_| self.is_measured())?;
        Some(&meter.topics)
    }

    /// Whether somebody wants to know what requests cost.
    fn is_measured(&self) -> bool {
        self.ticket.started_us != 0
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
            self.hub().close_after(self.ticket, Some(reason));
        }
        if *self.reserved.get_mut() {
            self.hub().release(self.ticket);
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

    /// The name in the client's certificate, as DER.
    #[getter]
    fn peer_subject<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        let subject = self.origin.subject.as_ref();
        subject.map(|subject| PyBytes::new(py, &subject.name))
    }

    #[getter]
    fn awaits_principal(&self) -> bool {
        self.origin.awaits_principal()
    }

    fn know_principal(&self) {
        if let Some(subject) = &self.origin.subject {
            subject.is_known.store(true, Ordering::Relaxed);
        }
    }

    fn mark_broker(&self) {
        self.hub().mark_broker(self.ticket.connection);
    }

    #[getter]
    fn is_waiting(&self) -> bool {
        self.hub().is_waiting(self.ticket)
    }

    fn __len__(&self) -> usize {
        self.body_length
    }

    fn reply(&self, py: Python<'_>, body: Input) -> PyResult<()> {
        self.answer(py, body.bytes(py), Vec::new())
    }

    /// Answers with an encoded message, which is taken out of `encoding` as it is.
    fn reply_encoded(&self, py: Python<'_>, encoding: &Bound<'_, Encoding>) -> PyResult<()> {
        let mut blocks = encoding.try_borrow_mut()?.take().into_iter();
        let first = blocks.next().unwrap_or_default();
        self.answer(py, &first, blocks.map(Piece::Bytes).collect())
    }

    fn reserve(&self, bytes: usize, token: u64) -> Option<bool> {
        self.reserved.store(true, Ordering::Relaxed);
        match self.hub().reserve(self.ticket, bytes, token) {
            Reserved::Now => Some(true),
            Reserved::Never => Some(false),
            Reserved::Later => None,
        }
    }

    fn skip(&self, py: Python<'_>) -> PyResult<()> {
        let (throttle_ms, _) = self.throttled(py)?;
        self.answered();
        let mut hub = self.hub();
        if let Some(asked) = self.produced.get()
            && let Some(topics) = self.topics(&hub)
        {
            produce::note(topics, asked, None);
        }
        hub.skip(self.ticket);
        self.muted(&mut hub, throttle_ms);
        Ok(())
    }

    fn limit(&self, throttle_ms: Py<PyAny>, is_named: bool) {
        let quota = Quota {
            throttle_ms,
            is_named,
        };
        // The one before is dropped when the lock is free again.
        let _before = self.quota.lock().replace(quota);
    }

    fn take_throttle(&self, py: Python<'_>) -> PyResult<u32> {
        Ok(self.throttled(py)?.0)
    }

    #[pyo3(signature = (reason = None))]
    fn close(&self, reason: Option<&str>) {
        self.answered();
        self.hub().close_after(self.ticket, reason);
    }

    fn appended(&self) {
        self.hub().appended(self.ticket);
    }

    fn produce(&self) -> PyResult<ProduceRequest> {
        let frame = self.produce_frame.lock().take();
        let frame = frame.ok_or_else(|| {
            PyTypeError::new_err("not a Produce request, or produce() was called before")
        })?;
        let version = self.ticket.api_version;
        let (request, asked) = produce::decode(frame, self.body_start, version)?;
        let _ = self.produced.set(asked);
        Ok(request)
    }

    /// Takes the results of the next partitions of a Produce; `reply_produce` has those of the last.
    fn put_results(&self, results: &Bound<'_, PyList>) -> PyResult<()> {
        self.results.lock().take(results)
    }

    fn reply_produce(&self, results: &Bound<'_, PyList>) -> PyResult<()> {
        let asked = self.produced.get();
        let asked = asked.ok_or_else(|| PyTypeError::new_err("produce() comes first"))?;
        let (throttle_ms, _) = self.throttled(results.py())?;
        let mut all = mem::take(&mut *self.results.lock());
        all.take(results)?;
        all.check(asked)?;
        let results = all;
        self.answered();
        let version = self.ticket.api_version;
        let throttle_time_ms = i32::try_from(throttle_ms).unwrap_or(i32::MAX);
        let write = |to: &mut Vec<u8>| results.encode(asked, version, throttle_time_ms, to);
        let mut hub = self.hub();
        if let Some(topics) = self.topics(&hub) {
            produce::note(topics, asked, Some(&results));
        }
        self.noted(&mut hub, results.codes());
        hub.reply(self.ticket, write, Vec::new());
        self.muted(&mut hub, throttle_ms);
        Ok(())
    }

    fn fetch(&self) -> PyResult<FetchRequest> {
        let frame = self
            .frame
            .as_deref()
            .filter(|_| self.ticket.api_key == FETCH);
        let frame = frame.ok_or_else(|| PyTypeError::new_err("not a Fetch request"))?;
        let believes = || self.hub().says_it_is_broker(self.ticket.connection);
        let body = &frame[self.body_start..];
        let (request, asked) = fetch::decode(body, self.ticket.api_version, believes)?;
        let _ = self.fetched.set(asked);
        Ok(request)
    }

    #[pyo3(signature = (rows, *, of = None, throttle_ms = 0, error_code = 0, session_id = 0))]
    fn reply_fetch(
        &self,
        rows: &Bound<'_, PyList>,
        of: Option<&Bound<'_, PyList>>,
        throttle_ms: i32,
        error_code: i16,
        session_id: i32,
    ) -> PyResult<()> {
        let asked = self.fetched.get();
        let asked = asked.ok_or_else(|| PyTypeError::new_err("fetch() comes first"))?;
        let head = ResponseHead {
            throttle_time_ms: throttle_ms,
            error_code,
            session_id,
        };
        let mut codes = vec![error_code];
        let topics = self.topics(&self.hub()).cloned();
        let measured = topics.as_deref().map(|topics| (&mut codes, topics));
        let mut pieces = fetch_row::encode(asked, rows, of, head, measured)?
            .into_iter()
            .peekable();
        let first = match pieces.next_if(|piece| matches!(piece, Piece::Bytes(_))) {
            Some(Piece::Bytes(bytes)) => bytes,
            _ => Vec::new(),
        };
        self.answered();
        let write = |to: &mut Vec<u8>| to.extend_from_slice(&first);
        let mut hub = self.hub();
        self.noted(&mut hub, codes.into_iter());
        hub.reply(self.ticket, write, pieces.collect());
        self.muted(&mut hub, u32::try_from(throttle_ms).unwrap_or(0));
        Ok(())
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
        let Some(frame) = &request.frame else {
            return Err(PyBufferError::new_err(
                "a Produce is read by produce(), since its records are written to",
            ));
        };
        let body = &frame[request.body_start..];
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

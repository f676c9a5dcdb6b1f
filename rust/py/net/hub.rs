//! `Hub` and `Disconnected`.

use std::collections::HashMap;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use super::completions::{Completion, Completions, Outcome};
use super::direct::{self, Direct, Lease, Terms, Turn, Unacknowledged};
use super::request::Request;
use crate::net::admission::Api;
use crate::net::hub::{self, Event};
use crate::net::limits::{ConnectionLimits, Limits, connections_of_descriptors};
use crate::net::listeners::Origin;
use crate::net::meter::{Histogram, Meter};
use crate::net::rate::Window;
use crate::py::log::{Log, Written};
use crate::py::traffic::TopicTraffic;

/// The hub as requests share it. The lock is held only for a moment, never while a Python object is made or dropped (a collection of garbage may
/// drop a request, which takes the lock), and never by a thread that waits to be attached to Python.
pub type Shared = Arc<Mutex<hub::Hub<Outcome>>>;

pub fn address(address: std::net::SocketAddr) -> (String, u16) {
    (address.ip().to_canonical().to_string(), address.port())
}

/// With its number, so that Python sees EADDRINUSE and the like.
fn os_error(error: std::io::Error) -> PyErr {
    match error.raw_os_error() {
        Some(number) => PyOSError::new_err((number, error.to_string())),
        None => error.into(),
    }
}

#[pyclass(frozen, module = "ottla._core")]
pub struct Hub {
    hub: Shared,
    direct: Arc<Direct>,
    /// The loop's.
    turn: Mutex<Turn>,
    epoll: Arc<OwnedFd>,
    served: Py<Served>,
}

/// The one event of its kind: see `Event::Served`.
#[pyclass(frozen, module = "ottla._core")]
pub struct Served;

fn by_address(overrides: HashMap<String, usize>) -> PyResult<HashMap<IpAddr, usize>> {
    let parsed = overrides.into_iter().map(|(ip, count)| {
        let ip = ip.parse::<IpAddr>();
        ip.map(|ip| (ip.to_canonical(), count))
            .map_err(|error| PyValueError::new_err(error.to_string()))
    });
    parsed.collect()
}

/// The properties of an API that the hub has to know: attributes of its declaration (`ottla.wire.schema.Api`).
#[derive(FromPyObject)]
struct ApiOfHub {
    lowest: i16,
    highest: i16,
    flexible_from: i16,
    has_small_answers: bool,
    is_between_brokers: bool,
}

impl From<ApiOfHub> for Api {
    fn from(api: ApiOfHub) -> Self {
        Self {
            lowest: api.lowest,
            highest: api.highest,
            flexible_from: api.flexible_from,
            has_small_answers: api.has_small_answers,
            is_between_brokers: api.is_between_brokers,
        }
    }
}

impl Hub {
    /// The turn, for a call of the loop.
    fn turn(&self) -> PyResult<MutexGuard<'_, Turn>> {
        let turn = self.turn.try_lock();
        turn.ok_or_else(|| PyRuntimeError::new_err("another thread runs the hub"))
    }

    /// What the loop gets of an event that nobody has served.
    fn told(&self, py: Python<'_>, event: Event<Outcome>) -> PyResult<Py<PyAny>> {
        Ok(match event {
            Event::Request(incoming) => Py::new(py, Request::new(&self.hub, incoming))?.into_any(),
            Event::Completion(completion) => {
                Py::new(py, Completion::new(py, completion))?.into_any()
            }
            Event::Disconnected(event) => Py::new(py, Disconnected { event })?.into_any(),
            Event::Served => self.served.clone_ref(py).into_any(),
            Event::Reserved { token, is_granted } => {
                Py::new(py, Completion::reserved(py, token, is_granted))?.into_any()
            }
        })
    }
}

#[pymethods]
impl Hub {
    #[new]
    #[pyo3(signature = (*, supported, frame_bytes_max = 104_857_600, queued_bytes_max = 268_435_456, percent_per_ip_max = 50,
        output_bytes_max = 1_048_576, waiting_requests_max = 1000, waiting_bytes_max = 16_777_216,
        connections_max = 2_147_483_647, connections_per_ip_max = 2_147_483_647,
        connections_per_ip_overrides = None, idle_ms = Some(600_000), send_buffer_bytes = None,
        receive_buffer_bytes = None))]
    #[expect(
        clippy::too_many_arguments,
        reason = "each is a setting, given by name"
    )]
    fn new(
        py: Python<'_>,
        supported: HashMap<i16, ApiOfHub>,
        frame_bytes_max: usize,
        queued_bytes_max: usize,
        percent_per_ip_max: usize,
        output_bytes_max: usize,
        waiting_requests_max: usize,
        waiting_bytes_max: usize,
        connections_max: usize,
        connections_per_ip_max: usize,
        connections_per_ip_overrides: Option<HashMap<String, usize>>,
        idle_ms: Option<u64>,
        send_buffer_bytes: Option<usize>,
        receive_buffer_bytes: Option<usize>,
    ) -> PyResult<Self> {
        let overrides = by_address(connections_per_ip_overrides.unwrap_or_default())?;
        let limits = Limits {
            frame_bytes_max,
            queued_bytes_max,
            percent_per_ip_max,
            output_bytes_max,
            waiting_requests_max,
            waiting_bytes_max,
            idle_ms,
        };
        let connections = ConnectionLimits {
            connections_max,
            descriptors_max: connections_of_descriptors(),
            per_ip_max: connections_per_ip_max,
            per_ip_overrides: overrides,
            send_buffer_bytes,
            receive_buffer_bytes,
        };
        let apis = supported.into_iter();
        let apis = apis.map(|(key, api)| (key, api.into())).collect();
        let hub = hub::Hub::new(limits, connections, &apis)?;
        let epoll = Arc::clone(hub.fd());
        Ok(Self {
            hub: Arc::new(Mutex::new(hub)),
            direct: Arc::default(),
            turn: Mutex::default(),
            epoll,
            served: Py::new(py, Served)?,
        })
    }

    fn fileno(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }

    fn listen(&self, host: &str, port: u16, name: &str) -> PyResult<u16> {
        let listening = self.hub.lock().listen(host, port, name);
        listening.map_err(os_error)
    }

    fn next(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let event = {
            let mut turn = self.turn()?;
            let event = self.hub.lock().next_event()?;
            self.direct.pass(&self.hub, &mut turn, event)?
        };
        event.map(|event| self.told(py, event)).transpose()
    }

    fn wait(&self, py: Python<'_>, timeout_s: f64) -> PyResult<Option<Py<PyAny>>> {
        let timeout = Duration::try_from_secs_f64(timeout_s.max(0.0))
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        let (direct, hub, epoll) = (&*self.direct, &*self.hub, &*self.epoll);
        // Neither the hub nor what is served of it needs Python; other threads may run it meanwhile.
        let event = {
            let turn = &mut *self.turn()?;
            py.detach(|| direct.wait(hub, turn, epoll.as_fd(), timeout))?
        };
        event.map(|event| self.told(py, event)).transpose()
    }

    fn lease(
        &self,
        topic: &str,
        partition: i32,
        log: &Log,
        terms: &Terms,
        owner: Py<PyAny>,
    ) -> Lease {
        let to = (&self.direct, &self.hub);
        Lease::grant(to, (topic, partition), log, terms, owner)
    }

    fn limit_leased_fetches(&self, bytes_max: u64, serves_racks: bool) {
        self.direct.limit_fetches(bytes_max, serves_racks);
    }

    #[getter]
    fn waiting_fetches(&self) -> usize {
        self.direct.waiting()
    }

    fn write_leased(&self, py: Python<'_>) -> PyResult<Vec<Written>> {
        direct::written(py, &self.direct, &mut *self.turn()?)
    }

    fn answer_leased(&self, py: Python<'_>) -> PyResult<Vec<Unacknowledged>> {
        let turn = &mut *self.turn()?;
        direct::answer(py, &self.direct, &self.hub, turn)
    }

    fn watch_beside(&self, fd: Option<RawFd>) -> PyResult<()> {
        let beside = match fd {
            None => None,
            Some(fd) if fd < 0 => {
                return Err(PyValueError::new_err("a descriptor is not negative"));
            }
            // SAFETY: it is used during this call only, in which the loop that owns it does nothing else; the kernel refuses one that is not open.
            Some(fd) => Some(unsafe { BorrowedFd::borrow_raw(fd) }),
        };
        self.direct.let_wait(&self.hub, beside.is_some());
        self.hub.lock().watch_beside(beside).map_err(os_error)
    }

    #[getter]
    fn completions(&self) -> Completions {
        Completions::new(Arc::clone(self.hub.lock().completions()))
    }

    fn limit_connections(
        &self,
        connections_max: usize,
        connections_per_ip_max: usize,
        connections_per_ip_overrides: HashMap<String, usize>,
    ) -> PyResult<()> {
        let limits = ConnectionLimits {
            connections_max,
            descriptors_max: connections_of_descriptors(),
            per_ip_max: connections_per_ip_max,
            per_ip_overrides: by_address(connections_per_ip_overrides)?,
            ..ConnectionLimits::default()
        };
        self.hub.lock().limit_connections(limits);
        Ok(())
    }

    #[pyo3(signature = (per_second_max, *, samples, window_ms, protected))]
    fn limit_connection_rate(
        &self,
        per_second_max: Option<u32>,
        samples: usize,
        window_ms: u64,
        protected: Option<String>,
    ) {
        let window = window(samples, window_ms);
        let mut hub = self.hub.lock();
        hub.limit_connection_rate(window, per_second_max, protected);
    }

    #[pyo3(signature = (name, connections_max, per_second_max, *, samples, window_ms))]
    fn limit_listener(
        &self,
        name: &str,
        connections_max: usize,
        per_second_max: Option<u32>,
        samples: usize,
        window_ms: u64,
    ) {
        let window = window(samples, window_ms);
        let mut hub = self.hub.lock();
        hub.limit_listener(name, connections_max, window, per_second_max);
    }

    fn reserve_for(&self, listeners: Vec<String>) {
        self.hub.lock().reserve_for(listeners);
    }

    fn greet(&self, name: &str, greeting_ms: Option<u64>) {
        self.hub.lock().greet(name, greeting_ms);
    }

    fn let_speak(&self, connection: u64) {
        self.hub.lock().let_speak(connection);
    }

    fn end_session(&self, connection: u64, reason: String) {
        self.hub.lock().end_session(connection, reason);
    }

    fn stop_listening(&self, name: &str) {
        self.hub.lock().stop_listening(name);
    }

    fn stop_accepting(&self) {
        self.hub.lock().stop_accepting();
    }

    fn drain(&self) {
        self.hub.lock().drain();
    }

    fn close(&self) {
        self.hub.lock().close();
    }

    #[getter]
    fn connections(&self) -> usize {
        self.hub.lock().figures().connections
    }

    #[getter]
    fn queued_bytes(&self) -> usize {
        self.hub.lock().figures().queued_bytes
    }

    #[getter]
    fn pooled_bytes(&self) -> usize {
        self.hub.lock().figures().pooled_bytes
    }

    #[getter]
    fn accepted_total(&self) -> u64 {
        self.hub.lock().figures().accepted_total
    }

    #[getter]
    fn turns_total(&self) -> u64 {
        self.hub.lock().figures().turns_total
    }

    #[getter]
    fn cold_reads_total(&self) -> u64 {
        self.hub.lock().figures().cold_reads_total
    }

    fn measure(&self, traffic: &TopicTraffic) {
        let mut hub = self.hub.lock();
        hub.meter
            .get_or_insert_with(|| Box::new(Meter::of(Arc::clone(&traffic.0))));
    }

    fn measured(&self) -> Vec<ApiFigures> {
        let mut hub = self.hub.lock();
        let Some(meter) = &mut hub.meter else {
            return Vec::new();
        };
        let now_us = meter.now_us();
        meter
            .apis()
            .map(|(key, api)| {
                let versions = (0..).zip(api.versions.iter().copied());
                let [
                    total_us,
                    request_queue_us,
                    local_us,
                    remote_us,
                    response_queue_us,
                    response_send_us,
                ] = api
                    .times_us
                    .each_mut()
                    .map(|of| Distribution::of(of, now_us));
                ApiFigures {
                    key,
                    versions: versions.filter(|(_, count)| *count > 0).collect(),
                    total_us,
                    request_queue_us,
                    local_us,
                    remote_us,
                    response_queue_us,
                    response_send_us,
                    size_bytes: Distribution::of(&mut api.bytes, now_us),
                    throttle_ms: Distribution::of(&mut api.throttle_ms, now_us),
                    errors: api.errors.clone(),
                }
            })
            .collect()
    }

    /// Counts the error codes of an answer that was made outside.
    fn note_errors(&self, key: i16, codes: Vec<i16>) {
        if let Some(meter) = &mut self.hub.lock().meter {
            meter.noted(key, codes.into_iter());
        }
    }

    #[getter]
    fn busy_us(&self) -> (u64, u64) {
        let hub = self.hub.lock();
        hub.meter.as_ref().map_or((0, 0), |meter| meter.busy_us())
    }

    /// Connections that are open, by listener.
    fn listener_connections(&self) -> Vec<(String, usize)> {
        self.hub.lock().listener_connections()
    }
}

/// How often something was measured, and its values at the quantiles of `meter::QUANTILES`.
#[pyclass(frozen, get_all, skip_from_py_object, module = "ottla._core")]
#[derive(Clone)]
pub struct Distribution {
    count: u64,
    quantiles: Vec<f64>,
}

impl Distribution {
    fn of(histogram: &mut Histogram, now_us: u64) -> Self {
        Self {
            count: histogram.count,
            quantiles: histogram.quantiles(now_us).to_vec(),
        }
    }
}

/// What the requests of one API cost.
#[pyclass(frozen, get_all, module = "ottla._core")]
pub struct ApiFigures {
    key: i16,
    /// How many requests there were, by version.
    versions: Vec<(usize, u64)>,
    /// The time until an answer was sent, and its parts: see `net::times`.
    total_us: Distribution,
    request_queue_us: Distribution,
    local_us: Distribution,
    remote_us: Distribution,
    response_queue_us: Distribution,
    response_send_us: Distribution,
    size_bytes: Distribution,
    throttle_ms: Distribution,
    /// How often which error code was answered.
    errors: Vec<(i16, u64)>,
}

/// Neither may be nothing: both divide.
fn window(samples: usize, size_ms: u64) -> Window {
    Window {
        samples: samples.max(1),
        size_ms: size_ms.max(1),
    }
}

#[pyclass(frozen, module = "ottla._core")]
pub struct Disconnected {
    event: hub::Disconnected,
}

impl Disconnected {
    fn origin(&self) -> &Origin {
        &self.event.origin
    }
}

#[pymethods]
impl Disconnected {
    #[getter]
    fn connection_id(&self) -> u64 {
        self.event.connection
    }

    #[getter]
    fn reason(&self) -> Option<&str> {
        self.event.reason.as_deref()
    }

    #[getter]
    fn client_id(&self) -> Option<&str> {
        self.event.client_id.as_deref()
    }

    #[getter]
    fn peer_address(&self) -> (String, u16) {
        address(self.origin().peer)
    }

    #[getter]
    fn listener(&self) -> &str {
        &self.origin().listener
    }
}

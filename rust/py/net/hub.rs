//! `Hub`.

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
use super::disconnected::Disconnected;
use super::follower::Follower;
use super::measured::{self, ApiFigures};
use super::request::Request;
use super::session::{Lent, SessionLoan};
use super::tls::Tls;
use crate::direct::serving::Threads;
use crate::direct::session::Following;
use crate::net::admission::Api;
use crate::net::hub::{self, Event};
use crate::net::limits::{ConnectionLimits, Limits, connections_of_descriptors};
use crate::net::rate::Window;
use crate::py::errors::kafka_error;
use crate::py::log::{Log, Reader, Written};
use crate::py::replication::ReplicationQuota;
use crate::py::traffic::TopicTraffic;

/// `UnknownServerError`: a mistake of ours.
const UNKNOWN: i16 = -1;

/// The hubs as requests share them. The lock of one is held only for a moment, never while a Python object is made or dropped (a collection of garbage may
/// drop a request, which takes the lock), and never by a thread that waits to be attached to Python.
pub type Shared = Arc<hub::Hubs<Outcome>>;

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
    hubs: Shared,
    direct: Arc<Direct>,
    /// The loop's.
    turn: Mutex<Turn>,
    /// Those beside the loop, until `close`.
    threads: Mutex<Option<Threads>>,
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
            Event::Failed(reason) => return Err(kafka_error(UNKNOWN, reason)),
            Event::Request(incoming) => Py::new(py, Request::new(&self.hubs, incoming))?.into_any(),
            Event::Completion(completion) => {
                Py::new(py, Completion::new(py, completion))?.into_any()
            }
            Event::Disconnected(event) => Py::new(py, Disconnected::new(event))?.into_any(),
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
        receive_buffer_bytes = None, threads_max = 0))]
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
        threads_max: usize,
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
        let hubs = hub::Hubs::new(limits, connections, &apis, threads_max)?;
        let epoll = Arc::clone(hubs.loops().lock().fd());
        Ok(Self {
            hubs: Arc::new(hubs),
            direct: Arc::default(),
            turn: Mutex::default(),
            threads: Mutex::new(Some(Threads::default())),
            epoll,
            served: Py::new(py, Served)?,
        })
    }

    fn fileno(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }

    fn listen(&self, host: &str, port: u16, name: &str) -> PyResult<u16> {
        let listening = self.hubs.loops().lock().listen(host, port, name);
        listening.map_err(os_error)
    }

    fn secure(&self, name: &str, tls: &Tls) -> PyResult<()> {
        let secured = self.hubs.loops().lock().secure(name, &tls.0);
        secured.map_err(os_error)
    }

    fn serve_beside(&self, threads: usize) -> PyResult<()> {
        let serving = self.threads.lock();
        let served = serving.as_ref().map_or(Ok(()), |serving| {
            serving.serve(&self.direct, &self.hubs, threads)
        });
        served.map_err(os_error)
    }

    fn next(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let event = {
            let mut turn = self.turn()?;
            let event = self.hubs.loops().lock().next_event()?;
            self.direct.pass(&self.hubs, &mut turn, event)?
        };
        event.map(|event| self.told(py, event)).transpose()
    }

    fn wait(&self, py: Python<'_>, timeout_s: f64) -> PyResult<Option<Py<PyAny>>> {
        let timeout = Duration::try_from_secs_f64(timeout_s.max(0.0))
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        let (direct, hubs, epoll) = (&*self.direct, &*self.hubs, &*self.epoll);
        // Neither the hub nor what is served of it needs Python; other threads may run it meanwhile.
        let event = {
            let turn = &mut *self.turn()?;
            py.detach(|| direct.wait(hubs, turn, epoll.as_fd(), timeout))?
        };
        event.map(|event| self.told(py, event)).transpose()
    }

    fn lease(
        &self,
        topic: &str,
        partition: i32,
        log: &Log,
        terms: &Terms,
        followers: HashMap<i32, PyRef<'_, Follower>>,
        owner: Py<PyAny>,
    ) -> Lease {
        let to = (&self.direct, &self.hubs);
        let followers = followers.iter();
        let followers = followers
            .map(|(&id, one)| (id, Arc::clone(&one.0)))
            .collect();
        Lease::grant(to, (topic, partition), log, (terms, followers), owner)
    }

    fn lend_session(
        &self,
        session: (i32, i32),
        reader: &Bound<'_, Reader>,
        entries: Vec<Lent>,
        partitions_max: usize,
        now_ms: u64,
        following: Option<(i32, u64, PyRef<'_, ReplicationQuota>)>,
    ) -> SessionLoan {
        let to = (&self.direct, &self.hubs);
        let reader = (*reader.get()).into();
        let following = following.map(|(broker, connection, quota)| Following {
            broker,
            connection,
            quota: Arc::clone(&quota.0),
        });
        let entries = (&*entries, partitions_max);
        SessionLoan::lend(to, session, reader, entries, now_ms, following)
    }

    fn limit_leased_fetches(&self, bytes_max: u64, serves_racks: bool) {
        self.direct.limit_fetches(bytes_max, serves_racks);
    }

    #[getter]
    fn waiting_fetches(&self) -> usize {
        self.direct.waiting()
    }

    #[getter]
    fn waiting_produces(&self) -> usize {
        self.direct.waiting_produces()
    }

    fn write_leased(&self, py: Python<'_>) -> PyResult<Vec<Written>> {
        direct::written(py, &self.direct, &mut *self.turn()?)
    }

    fn answer_leased(&self, py: Python<'_>) -> PyResult<Vec<Unacknowledged>> {
        let turn = &mut *self.turn()?;
        direct::answer(py, &self.direct, &self.hubs, turn)
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
        self.direct.let_wait(&self.hubs, beside.is_some());
        let watching = self.hubs.loops().lock().watch_beside(beside);
        watching.map_err(os_error)
    }

    #[getter]
    fn completions(&self) -> Completions {
        Completions::new(Arc::clone(self.hubs.loops().lock().completions()))
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
        self.hubs.loops().lock().limit_connections(limits);
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
        let mut hub = self.hubs.loops().lock();
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
        let mut hub = self.hubs.loops().lock();
        hub.limit_listener(name, connections_max, window, per_second_max);
    }

    fn know_brokers_by_rights(&self) {
        self.hubs.loops().lock().know_brokers_by_rights();
    }

    fn reserve_for(&self, listeners: Vec<String>) {
        self.hubs.loops().lock().reserve_for(listeners);
    }

    fn greet(&self, name: &str, greeting_ms: Option<u64>) {
        self.hubs.loops().lock().greet(name, greeting_ms);
    }

    #[pyo3(signature = (connection, for_ms=None))]
    fn let_speak(&self, connection: u64, for_ms: Option<u64>) {
        self.hubs.of(connection).let_speak(connection, for_ms);
    }

    fn take_tokens(&self, connection: u64) {
        self.hubs.of(connection).take_tokens(connection);
    }

    fn refuse(&self, connection: u64, reason: String) {
        self.hubs.of(connection).refuse(connection, reason);
    }

    fn end_session(&self, connection: u64, reason: String) {
        self.hubs.of(connection).end_session(connection, reason);
    }

    fn stop_listening(&self, name: &str) {
        self.hubs.stop_listening(name);
    }

    fn stop_accepting(&self) {
        self.hubs.loops().lock().stop_accepting();
    }

    fn drain(&self) {
        for hub in self.hubs.all() {
            hub.lock().drain();
        }
    }

    fn close(&self, py: Python<'_>) {
        let threads = self.threads.lock().take();
        if let Some(threads) = threads {
            // They may drop objects of Python's.
            py.detach(|| threads.end(&self.hubs));
        }
        self.hubs.close();
    }

    #[getter]
    fn connections(&self) -> usize {
        self.hubs.figures().connections
    }

    #[getter]
    fn queued_bytes(&self) -> usize {
        self.hubs.figures().queued_bytes
    }

    #[getter]
    fn pooled_bytes(&self) -> usize {
        self.hubs.figures().pooled_bytes
    }

    #[getter]
    fn accepted_total(&self) -> u64 {
        self.hubs.figures().accepted_total
    }

    #[getter]
    fn turns_total(&self) -> u64 {
        self.hubs.figures().turns_total
    }

    #[getter]
    fn cold_reads_total(&self) -> u64 {
        self.hubs.figures().cold_reads_total
    }

    fn measure(&self, traffic: &TopicTraffic) {
        self.hubs.measure(&traffic.0);
    }

    fn measured(&self) -> Vec<ApiFigures> {
        let Some(mut meter) = self.hubs.measured() else {
            return Vec::new();
        };
        measured::figures(&mut meter)
    }

    /// Counts the error codes of an answer that was made outside.
    fn note_errors(&self, key: i16, codes: Vec<i16>) {
        if let Some(meter) = &mut self.hubs.loops().lock().meter {
            meter.noted(key, codes.into_iter());
        }
    }

    /// Has a thread beside the loop panic, for tests.
    fn _panic_in_thread(&self, place: usize) -> PyResult<()> {
        let hub = self.hubs.other(place);
        let hub = hub.ok_or_else(|| PyValueError::new_err("there is no such thread"))?;
        hub.lock().fail("a turn that was asked to".to_owned());
        Ok(())
    }

    #[getter]
    fn threads(&self) -> Vec<(usize, u64)> {
        self.hubs.threads()
    }

    #[getter]
    fn moved_total(&self) -> u64 {
        self.hubs.moved_total()
    }

    #[getter]
    fn served_us(&self) -> (u64, u64) {
        self.hubs.served_us()
    }

    #[getter]
    fn loop_busy_us(&self) -> (u64, u64) {
        self.hubs.loop_busy_us()
    }

    /// Connections that are open, by listener.
    fn handshakes(&self) -> Vec<(String, u64, u64)> {
        let counts = self.hubs.loops().lock().handshakes().into_iter();
        counts
            .map(|(name, counts)| (name, counts.succeeded, counts.failed))
            .collect()
    }

    fn listener_connections(&self) -> Vec<(String, usize)> {
        self.hubs.loops().lock().listener_connections()
    }
}

/// Neither may be nothing: both divide.
fn window(samples: usize, size_ms: u64) -> Window {
    Window {
        samples: samples.max(1),
        size_ms: size_ms.max(1),
    }
}

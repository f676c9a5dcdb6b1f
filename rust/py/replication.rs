//! The fetcher for Python. Documented in `_core/_replication.pyi`.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::log::Log;
use super::net::{Completions, TlsClient};
use crate::net::transport::Transport;
use crate::replication::{
    self, Begun, Conversation, FetcherSettings, Greeting, Next, PartitionKey, Quota, Replica,
    Terms, Throttled, Window,
};

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<ReplicationQuota>()?;
    module.add_class::<LargeAnswers>()?;
    module.add_class::<PartitionToFetch>()?;
    module.add_class::<Fetcher>()?;
    module.add_class::<FetcherEvent>()?;
    module.add_class::<PartitionLag>()?;
    module.add_class::<FetcherFigures>()
}

/// The Fetch that can tell where logs diverge, and the one before it.
const VERSIONS: std::ops::RangeInclusive<i16> = 11..=12;

#[pyclass(frozen, module = "ottla._core")]
pub struct ReplicationQuota(pub Arc<Quota>);

#[pymethods]
impl ReplicationQuota {
    #[new]
    fn new(samples: u32, sample_s: u32) -> Self {
        let size = Duration::from_secs(sample_s.into());
        Self(Arc::new(Quota::new(Window { samples, size })))
    }

    fn limit(&self, bytes_per_second_max: Option<u64>) {
        self.0.limit(bytes_per_second_max);
    }

    fn throttle(&self, topic: &str, partitions: Option<HashSet<i32>>) {
        let throttled = partitions.map_or(Throttled::All, Throttled::These);
        self.0.throttle(topic, throttled);
    }

    #[getter]
    fn is_used(&self) -> bool {
        self.0.is_used()
    }

    fn is_throttled(&self, topic: &str, partition: i32) -> bool {
        self.0.is_throttled(topic, partition)
    }

    #[getter]
    fn is_exceeded(&self) -> bool {
        self.0.is_exceeded()
    }

    #[getter]
    fn until_room_ms(&self) -> u64 {
        let nanos = self.0.until_room().as_nanos();
        u64::try_from(nanos.div_ceil(1_000_000)).unwrap_or(u64::MAX)
    }

    fn record(&self, bytes: u64) {
        self.0.record(bytes);
    }

    #[getter]
    fn bytes(&self) -> u64 {
        self.0.bytes()
    }
}

#[pyclass(frozen, module = "ottla._core")]
pub struct LargeAnswers(Arc<replication::LargeAnswers>);

#[pymethods]
impl LargeAnswers {
    #[new]
    fn new(places: u32) -> PyResult<Self> {
        Ok(Self(Arc::new(replication::LargeAnswers::new(places)?)))
    }
}

/// One partition that a fetcher is given.
#[pyclass(frozen, get_all, module = "ottla._core")]
pub struct PartitionToFetch {
    topic: String,
    partition: i32,
    log: Py<Log>,
    leader_epoch: i32,
}

#[pymethods]
impl PartitionToFetch {
    #[new]
    #[pyo3(signature = (topic, partition, log, *, leader_epoch))]
    fn new(topic: String, partition: i32, log: Py<Log>, leader_epoch: i32) -> Self {
        Self {
            topic,
            partition,
            log,
            leader_epoch,
        }
    }

    fn __repr__(&self) -> String {
        format!(
            "<PartitionToFetch {}-{} in epoch {}>",
            self.topic, self.partition, self.leader_epoch
        )
    }
}

impl PartitionToFetch {
    fn native(&self) -> (PartitionKey, Arc<dyn Replica>, i32) {
        let key = PartitionKey::new(&self.topic, self.partition);
        (
            key,
            Arc::new(Arc::clone(&self.log.get().log)),
            self.leader_epoch,
        )
    }
}

#[pyclass(frozen, module = "ottla._core")]
pub struct Fetcher(replication::Fetcher);

impl Drop for Fetcher {
    /// The end of the thread is waited for without the interpreter, which the thread may be about to ask.
    fn drop(&mut self) {
        match Python::try_attach(|py| py.detach(|| self.0.close())) {
            Some(()) => {}
            None => self.0.close(),
        }
    }
}

/// Begins conversations that Python holds: an object with `tls`, a `TlsClient` or None, whose `next` is given the
/// answer before (None at first), and returns the next request, or the seconds for which it is known who comes, or
/// None: for ever.
#[derive(Debug)]
struct PyGreeting(Py<PyAny>);

impl Greeting for PyGreeting {
    fn begin(&self) -> Result<Begun, String> {
        with_python(|py| {
            let conversation = self.0.call0(py)?;
            let tls: Option<Py<TlsClient>> = conversation.getattr(py, "tls")?.extract(py)?;
            Ok(Begun {
                tls: tls.map(|tls| tls.get().0.clone()),
                conversation: Box::new(PyConversation(conversation)),
            })
        })
    }
}

struct PyConversation(Py<PyAny>);

impl Conversation for PyConversation {
    fn next(&mut self, answer: Option<&[u8]>) -> Result<Next, String> {
        with_python(|py| {
            let answer = answer.map(|answer| PyBytes::new(py, answer));
            let next = self.0.bind(py).call_method1("next", (answer,))?;
            if let Ok(frame) = next.cast::<PyBytes>() {
                return Ok(Next::Send(frame.as_bytes().to_vec()));
            }
            let lasts: Option<f64> = next.extract()?;
            Ok(Next::Done(lasts.map(|lasts| {
                Duration::try_from_secs_f64(lasts).unwrap_or_default()
            })))
        })
    }
}

/// Asks Python, on a thread that is not its own. An exception is told by its text.
fn with_python<T>(ask: impl FnOnce(Python<'_>) -> PyResult<T>) -> Result<T, String> {
    let asked = Python::try_attach(|py| ask(py).map_err(|error| error.value(py).to_string()));
    asked.unwrap_or_else(|| Err("the interpreter is ending".to_owned()))
}

#[pyclass(frozen, get_all, module = "ottla._core")]
pub struct FetcherEvent {
    topic: String,
    partition: i32,
    leader_epoch: i32,
    kind: &'static str,
    code: i16,
    epoch: i32,
    offset: i64,
    message: String,
}

impl From<replication::Event> for FetcherEvent {
    fn from(event: replication::Event) -> Self {
        let (topic, partition) = match event.partition {
            Some(key) => (key.topic.to_string(), key.partition),
            None => (String::new(), -1),
        };
        Self {
            topic,
            partition,
            leader_epoch: event.leader_epoch,
            kind: event.kind.name(),
            code: event.code,
            epoch: event.epoch,
            offset: event.offset,
            message: event.message,
        }
    }
}

#[pymethods]
impl FetcherEvent {
    fn __repr__(&self) -> String {
        format!(
            "<FetcherEvent {} of {:?}-{} in epoch {}: {}>",
            self.kind, self.topic, self.partition, self.leader_epoch, self.message
        )
    }
}

#[pyclass(frozen, get_all, module = "ottla._core")]
pub struct FetcherFigures {
    partitions: usize,
    requests: u64,
    bytes: u64,
    buffer_bytes: usize,
    lags: Vec<Py<PartitionLag>>,
}

impl FetcherFigures {
    fn of(py: Python<'_>, figures: replication::Figures) -> PyResult<Self> {
        let lag = |(key, lag): (PartitionKey, i64)| {
            let (topic, partition) = (key.topic.to_string(), key.partition);
            let row = PartitionLag {
                topic,
                partition,
                lag,
            };
            Py::new(py, row)
        };
        Ok(Self {
            partitions: figures.active,
            requests: figures.requests,
            bytes: figures.bytes,
            buffer_bytes: figures.buffer_bytes,
            lags: figures.lags.into_iter().map(lag).collect::<PyResult<_>>()?,
        })
    }
}

/// How far a partition's log is behind its leader's.
#[pyclass(frozen, get_all, module = "ottla._core")]
pub struct PartitionLag {
    topic: String,
    partition: i32,
    lag: i64,
}

#[pymethods]
impl PartitionLag {
    fn __repr__(&self) -> String {
        format!(
            "<PartitionLag {} of {}-{}>",
            self.lag, self.topic, self.partition
        )
    }
}

#[pymethods]
impl Fetcher {
    #[new]
    #[allow(clippy::too_many_arguments)]
    #[pyo3(signature = (*, host, port, replica_id, client_id, fetch_version, wait_max_ms, bytes_min, response_bytes_max,
        partition_bytes_max, batch_bytes_max, backoff_ms, socket_timeout_ms, receive_buffer_bytes, quota, large, completions, token,
        greeting=None))]
    fn new(
        host: String,
        port: u16,
        replica_id: i32,
        client_id: String,
        fetch_version: i16,
        wait_max_ms: i32,
        bytes_min: i32,
        response_bytes_max: i32,
        partition_bytes_max: i32,
        batch_bytes_max: i32,
        backoff_ms: u32,
        socket_timeout_ms: u32,
        receive_buffer_bytes: i32,
        quota: &ReplicationQuota,
        large: &LargeAnswers,
        completions: &Completions,
        token: u64,
        greeting: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        if !VERSIONS.contains(&fetch_version) {
            let problem = format!("fetch_version {fetch_version}: 11 or 12");
            return Err(PyValueError::new_err(problem));
        }
        let settings = FetcherSettings {
            host,
            port,
            replica_id,
            client_id,
            fetch_version,
            wait_max_ms,
            bytes_min,
            response_bytes_max,
            partition_bytes_max,
            batch_bytes_max,
            backoff: Duration::from_millis(backoff_ms.into()),
            socket_timeout: Duration::from_millis(socket_timeout_ms.into()),
            receive_buffer_bytes: usize::try_from(receive_buffer_bytes).unwrap_or(0),
            transport: Transport::Plain,
            greeting: greeting.map(|begin| Arc::new(PyGreeting(begin)) as Arc<dyn Greeting>),
        };
        let queue = completions.queue();
        let notify = move || queue.push(token, Box::new(|py| Ok(py.None())));
        let (quota, large) = (Arc::clone(&quota.0), Arc::clone(&large.0));
        Ok(Self(replication::Fetcher::start(
            settings, quota, large, notify,
        )?))
    }

    #[pyo3(signature = (partitions, *, is_move = false, is_agreed = false))]
    fn add(&self, partitions: Vec<Py<PartitionToFetch>>, is_move: bool, is_agreed: bool) {
        let partitions = partitions.iter().map(|each| each.get().native());
        let terms = Terms { is_move, is_agreed };
        self.0.add_under(partitions.collect(), terms);
    }

    fn remove(&self, py: Python<'_>, partitions: Vec<(String, i32)>) {
        let keys = partitions.iter();
        let keys: Vec<_> = keys
            .map(|(topic, partition)| PartitionKey::new(topic, *partition))
            .collect();
        py.detach(|| self.0.remove(&keys));
    }

    fn events(&self) -> Vec<FetcherEvent> {
        self.0.take_events().into_iter().map(Into::into).collect()
    }

    fn figures(&self, py: Python<'_>) -> PyResult<FetcherFigures> {
        FetcherFigures::of(py, self.0.figures())
    }

    #[getter]
    fn requests(&self) -> u64 {
        self.0.requests()
    }

    #[getter]
    fn lag_max(&self) -> i64 {
        self.0.lag_max()
    }

    fn close(&self, py: Python<'_>) {
        py.detach(|| self.0.close());
    }
}

//! The producers that a log remembers.

use pyo3::prelude::*;

use crate::log;

/// A producer that a log remembers, as DescribeProducers tells of it.
#[pyclass(frozen, get_all, module = "ottla._core")]
pub struct ActiveProducer {
    producer_id: i64,
    producer_epoch: i16,
    last_sequence: i32,
    last_timestamp_ms: i64,
    coordinator_epoch: i32,
    transaction_start: i64,
}

impl From<log::transactions::ProducerInfo> for ActiveProducer {
    fn from(info: log::transactions::ProducerInfo) -> Self {
        Self {
            producer_id: info.producer_id,
            producer_epoch: info.epoch,
            last_sequence: info.last_sequence,
            last_timestamp_ms: info.last_timestamp_ms,
            coordinator_epoch: info.coordinator_epoch,
            transaction_start: info.transaction_start.unwrap_or(-1),
        }
    }
}

#[pymethods]
impl ActiveProducer {
    fn __repr__(&self) -> String {
        format!(
            "<ActiveProducer {} in epoch {}>",
            self.producer_id, self.producer_epoch
        )
    }
}

/// The producers that a log remembered at one moment. Their objects are made one by one: there may be a million.
#[pyclass(module = "ottla._core")]
pub struct Producers {
    pub left: std::vec::IntoIter<log::transactions::ProducerInfo>,
}

#[pymethods]
impl Producers {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__(&mut self) -> Option<ActiveProducer> {
        self.left.next().map(Into::into)
    }
}

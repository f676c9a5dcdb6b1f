//! `TopicTraffic`: what went through the topics of one broker.

use std::collections::HashMap;
use std::sync::Arc;

use pyo3::prelude::*;

use crate::traffic::{COUNTS, Topics};

#[pyclass(frozen, module = "ottla._core")]
#[derive(Default)]
pub struct TopicTraffic(pub Arc<Topics>);

#[pymethods]
impl TopicTraffic {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    fn counts(&self, py: Python<'_>) -> PyResult<TrafficCounts> {
        let (topics, total) = self.0.all();
        let topics = topics
            .into_iter()
            .map(|(topic, counts)| Ok((topic, Py::new(py, Counts::from(counts))?)));
        Ok(TrafficCounts {
            by_topic: topics.collect::<PyResult<_>>()?,
            total: Py::new(py, Counts::from(total))?,
        })
    }
}

#[pyclass(frozen, get_all, module = "ottla._core")]
pub struct TrafficCounts {
    by_topic: HashMap<String, Py<Counts>>,
    total: Py<Counts>,
}

/// See [`Count`](crate::traffic::Count).
#[pyclass(frozen, get_all, module = "ottla._core")]
pub struct Counts {
    records_in: u64,
    bytes_in: u64,
    bytes_out: u64,
    produce_requests: u64,
    fetch_requests: u64,
    failed_produce_requests: u64,
    failed_fetch_requests: u64,
    produce_conversions: u64,
    fetch_conversions: u64,
    replication_bytes_in: u64,
    replication_bytes_out: u64,
    reassignment_bytes_in: u64,
}

impl From<[u64; COUNTS]> for Counts {
    fn from(counts: [u64; COUNTS]) -> Self {
        let [
            records_in,
            bytes_in,
            bytes_out,
            produce_requests,
            fetch_requests,
            failed_produce_requests,
            failed_fetch_requests,
            produce_conversions,
            fetch_conversions,
            replication_bytes_in,
            replication_bytes_out,
            reassignment_bytes_in,
        ] = counts;
        Self {
            records_in,
            bytes_in,
            bytes_out,
            produce_requests,
            fetch_requests,
            failed_produce_requests,
            failed_fetch_requests,
            produce_conversions,
            fetch_conversions,
            replication_bytes_in,
            replication_bytes_out,
            reassignment_bytes_in,
        }
    }
}

//! `TopicTraffic`: what went through the topics of one broker.

use std::sync::Arc;

use pyo3::prelude::*;

use crate::traffic::{COUNTS, Topics};

/// The counts of one topic, in the order of [`Count`](crate::traffic::Count).
type Counts = [u64; COUNTS];

#[pyclass(frozen, module = "ottla._core")]
#[derive(Default)]
pub struct TopicTraffic(pub Arc<Topics>);

#[pymethods]
impl TopicTraffic {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    fn counts(&self) -> (Vec<(String, Counts)>, Counts) {
        self.0.all()
    }
}

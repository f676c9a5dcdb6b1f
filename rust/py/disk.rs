//! A disk that breaks on purpose under a broker inside a program.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::storage::brittle::BrittleDisk as Disk;
use crate::storage::brittle::rules::{Deed, Operation, Rule};

/// How often a wait looks whether the program was interrupted.
const LOOK: Duration = Duration::from_millis(100);

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<BrittleDisk>()?;
    module.add_class::<BrittleDiskRule>()
}

#[pyclass(frozen, module = "ottla._core")]
struct BrittleDisk(Disk);

/// A rule of a `BrittleDisk`.
#[pyclass(frozen, module = "ottla._core")]
struct BrittleDiskRule {
    disk: Disk,
    rule: Arc<Rule>,
}

fn operation(name: &str) -> PyResult<Operation> {
    match name {
        "read" => Ok(Operation::Read),
        "write" => Ok(Operation::Write),
        "sync" => Ok(Operation::Sync),
        other => Err(PyValueError::new_err(format!(
            "operation {other:?}: read, write or sync"
        ))),
    }
}

fn seconds(value: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(value).map_err(|error| PyValueError::new_err(error.to_string()))
}

#[pymethods]
impl BrittleDisk {
    #[new]
    fn new() -> Self {
        Self(Disk::new())
    }

    fn stand_for(&self, directory: PathBuf) {
        self.0.stand_for(&directory);
    }

    fn forget(&self, py: Python<'_>) {
        py.detach(|| self.0.forget());
    }

    #[pyo3(signature = (operation, *, topic, partition, errno, is_lost, delay_s, after, times))]
    #[allow(clippy::too_many_arguments)]
    fn add(
        &self,
        operation: &str,
        topic: Option<String>,
        partition: Option<i32>,
        errno: Option<i32>,
        is_lost: bool,
        delay_s: f64,
        after: u64,
        times: Option<u64>,
    ) -> PyResult<BrittleDiskRule> {
        let delay = seconds(delay_s)?;
        let deed = Deed {
            errno,
            is_lost,
            delay,
        };
        let operation = self::operation(operation)?;
        let rule = Rule::new(operation, topic, partition, deed, after, times);
        self.0.add(Arc::clone(&rule));
        let disk = self.0.clone();
        Ok(BrittleDiskRule { disk, rule })
    }

    fn set_clock_ahead_ms(&self, ahead_ms: i64) {
        self.0.set_clock_ahead_ms(ahead_ms);
    }

    #[pyo3(signature = (seed=None))]
    fn lose_power(&self, py: Python<'_>, seed: Option<u64>) -> PyResult<()> {
        let mut state = seed.unwrap_or_default();
        let mut choice = move |most: u64| match seed {
            None => 0,
            Some(_) => {
                state = splitmix(state);
                state % (most + 1)
            }
        };
        Ok(py.detach(|| self.0.lose_power(&mut choice))?)
    }
}

#[pymethods]
impl BrittleDiskRule {
    #[getter]
    fn hits(&self) -> u64 {
        self.rule.hits()
    }

    #[getter]
    fn is_spent(&self) -> bool {
        self.rule.is_spent()
    }

    fn wait(&self, py: Python<'_>, count: u64, timeout_s: f64) -> PyResult<u64> {
        let deadline = Instant::now() + seconds(timeout_s)?;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let hits = py.detach(|| self.rule.wait(count, left.min(LOOK)));
            if hits >= count || left.is_zero() {
                return Ok(hits);
            }
            py.check_signals()?;
        }
    }

    fn remove(&self) {
        self.disk.remove(&self.rule);
    }
}

/// The next number of a sequence (Steele, Lea and Flood: SplitMix).
fn splitmix(state: u64) -> u64 {
    let mut mixed = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

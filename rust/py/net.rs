//! The hub for Python: connections, requests and what Rust threads report.

mod asked;
mod completions;
mod direct;
mod disconnected;
mod fetch;
mod fetch_row;
mod follower;
mod hub;
mod measured;
mod produce;
mod request;
mod session;
mod tls;

use std::num::NonZero;

use pyo3::prelude::*;

pub use completions::{Completions, Outcome};
pub use fetch::PartitionToRead;
pub use fetch_row::FetchRow;
pub use produce::ProduceRequest;
pub use request::Request;
pub use tls::TlsClient;

/// How many processors this process may use, by its affinity and the quota of its cgroup; at least 1.
#[pyfunction]
fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<completions::Completions>()?;
    module.add_class::<completions::Completion>()?;
    module.add_class::<hub::Hub>()?;
    module.add_class::<direct::Terms>()?;
    module.add_class::<direct::Lease>()?;
    module.add_class::<follower::Follower>()?;
    module.add_class::<direct::Unacknowledged>()?;
    module.add_class::<session::SessionLoan>()?;
    module.add_class::<disconnected::Disconnected>()?;
    module.add_class::<hub::Served>()?;
    module.add_class::<measured::ApiFigures>()?;
    module.add_class::<measured::Distribution>()?;
    module.add_class::<produce::ProduceRequest>()?;
    module.add_class::<produce::ProduceRow>()?;
    module.add_class::<fetch::FetchRequest>()?;
    module.add_class::<fetch::PartitionToRead>()?;
    module.add_class::<FetchRow>()?;
    module.add_class::<tls::Tls>()?;
    module.add_class::<TlsClient>()?;
    module.add_class::<request::Request>()?;
    module.add_function(wrap_pyfunction!(processors, module)?)
}

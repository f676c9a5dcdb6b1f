//! What Python sees: one file per room, each function three lines: take, call, map. Nothing outside this folder knows Python.

pub mod buffer;
mod cleaner;
mod client;
mod conversion;
mod coordinator;
mod disk;
pub mod errors;
mod log;
mod messages;
mod net;
mod one_at_a_time;
mod panics;
mod produce_fetch;
mod records;
mod replication;
mod traffic;
mod wire;

use pyo3::prelude::*;

#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    // A debug build is ten times slower: benchmarks and users must be able to tell.
    module.add("DEBUG_BUILD", cfg!(debug_assertions))?;
    // The name of cargo's profile, from rust/build.rs.
    module.add("BUILD_PROFILE", env!("OTTLA_PROFILE"))?;
    panics::register();
    records::register(module)?;
    log::register(module)?;
    cleaner::register(module)?;
    disk::register(module)?;
    wire::register(module)?;
    net::register(module)?;
    replication::register(module)?;
    client::register(module)?;
    conversion::register(module)?;
    coordinator::register(module)?;
    one_at_a_time::register(module)?;
    // PyO3 lists every name in __all__; the stub is the list of names here, and checked against the module.
    module.delattr("__all__")
}

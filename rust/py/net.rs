//! The hub for Python: connections, requests and what Rust threads report.

mod completions;
mod hub;
mod request;

use pyo3::prelude::*;

#[allow(unused_imports)] // for the glue of rooms with threads of their own
pub use completions::{Completions, Outcome};

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<completions::Completions>()?;
    module.add_class::<completions::Completion>()?;
    module.add_class::<hub::Hub>()?;
    module.add_class::<hub::Disconnected>()?;
    module.add_class::<request::Request>()
}

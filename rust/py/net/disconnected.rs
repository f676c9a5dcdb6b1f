//! `Disconnected`.

use pyo3::prelude::*;

use super::hub::address;
use crate::net::hub;
use crate::net::listeners::Origin;

#[pyclass(frozen, module = "ottla._core")]
pub struct Disconnected {
    event: hub::Disconnected,
}

impl Disconnected {
    pub fn new(event: hub::Disconnected) -> Self {
        Self { event }
    }

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

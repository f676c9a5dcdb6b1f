//! `Tls`: what a listener's sessions share.

use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::net::tls::{ClientAuth, Given, Part, ServerConfig, Wrong, server_config};

#[pyclass(frozen, module = "ottla._core")]
pub struct Tls(pub Arc<ServerConfig>);

#[pymethods]
impl Tls {
    #[new]
    #[pyo3(signature = (*, certificates, key, trusted, client_auth, protocols, suites))]
    fn new(
        certificates: &str,
        key: &str,
        trusted: &str,
        client_auth: &str,
        protocols: Vec<String>,
        suites: Vec<String>,
    ) -> PyResult<Self> {
        let given = Given {
            certificates,
            key,
            trusted,
            client_auth: match client_auth {
                "none" => ClientAuth::None,
                "requested" => ClientAuth::Requested,
                "required" => ClientAuth::Required,
                other => return Err(PyValueError::new_err(("client_auth", other.to_owned()))),
            },
            protocols: &protocols,
            suites: &suites,
        };
        let made = server_config(&given).map_err(|Wrong(part, how)| {
            let part = match part {
                Part::Certificates => "certificates",
                Part::Key => "key",
                Part::Trusted => "trusted",
                Part::Protocols => "protocols",
                Part::Suites => "suites",
            };
            PyValueError::new_err((part, how))
        })?;
        Ok(Self(made))
    }
}

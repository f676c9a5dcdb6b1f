//! `Tls`: what a listener's sessions share, and `TlsClient`: what those share that this broker opens.

use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::net::tls::{
    Client, ClientAuth, Given, GivenToClient, Part, ServerConfig, Wrong, client_config, meet,
    server_config,
};

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
        Ok(Self(server_config(&given).map_err(wrong)?))
    }
}

#[pyclass(frozen, module = "ottla._core")]
pub struct TlsClient(pub Client);

#[pymethods]
impl TlsClient {
    #[new]
    #[pyo3(signature = (*, certificates, key, trusted, checks_name, protocols, suites))]
    fn new(
        certificates: &str,
        key: &str,
        trusted: &str,
        checks_name: bool,
        protocols: Vec<String>,
        suites: Vec<String>,
    ) -> PyResult<Self> {
        let given = GivenToClient {
            certificates,
            key,
            trusted,
            checks_name,
            protocols: &protocols,
            suites: &suites,
        };
        Ok(Self(client_config(&given).map_err(wrong)?))
    }

    fn check(&self, server: &Tls, host: &str) -> PyResult<()> {
        meet(&self.0, host, &server.0).map_err(PyValueError::new_err)
    }
}

fn wrong(Wrong(part, how): Wrong) -> PyErr {
    let part = match part {
        Part::Certificates => "certificates",
        Part::Key => "key",
        Part::Trusted => "trusted",
        Part::Protocols => "protocols",
        Part::Suites => "suites",
    };
    PyValueError::new_err((part, how))
}

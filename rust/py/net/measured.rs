//! `ApiFigures`: the cost of requests, as Python is told it.

use pyo3::prelude::*;

use crate::net::meter::{Histogram, Meter};

/// How often something was measured, and its values at the quantiles of `meter::QUANTILES`.
#[pyclass(frozen, get_all, skip_from_py_object, module = "ottla._core")]
#[derive(Clone)]
pub struct Distribution {
    count: u64,
    quantiles: Vec<f64>,
}

impl Distribution {
    fn of(histogram: &mut Histogram, now_us: u64) -> Self {
        Self {
            count: histogram.count,
            quantiles: histogram.quantiles(now_us).to_vec(),
        }
    }
}

/// The cost of the requests of one API.
#[pyclass(frozen, get_all, module = "ottla._core")]
pub struct ApiFigures {
    key: i16,
    /// How many requests there were, by version.
    versions: Vec<(usize, u64)>,
    /// The time until an answer was sent, and its parts: see `net::times`.
    total_us: Distribution,
    request_queue_us: Distribution,
    local_us: Distribution,
    remote_us: Distribution,
    response_queue_us: Distribution,
    response_send_us: Distribution,
    size_bytes: Distribution,
    throttle_ms: Distribution,
    /// How often which error code was answered.
    errors: Vec<(i16, u64)>,
}

/// The figures of all APIs that were measured.
pub fn figures(meter: &mut Meter) -> Vec<ApiFigures> {
    let now_us = meter.now_us();
    meter
        .apis()
        .map(|(key, api)| {
            let versions = (0..).zip(api.versions.iter().copied());
            let [
                total_us,
                request_queue_us,
                local_us,
                remote_us,
                response_queue_us,
                response_send_us,
            ] = api
                .times_us
                .each_mut()
                .map(|of| Distribution::of(of, now_us));
            ApiFigures {
                key,
                versions: versions.filter(|(_, count)| *count > 0).collect(),
                total_us,
                request_queue_us,
                local_us,
                remote_us,
                response_queue_us,
                response_send_us,
                size_bytes: Distribution::of(&mut api.bytes, now_us),
                throttle_ms: Distribution::of(&mut api.throttle_ms, now_us),
                errors: api.errors.clone(),
            }
        })
        .collect()
}

//! Latencies: an HDR histogram of nanoseconds with three digits, and what is said of it.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::{Value, json};

pub struct Latencies(Histogram<u64>);

const QUANTILES: [f64; 24] = [
    0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.925, 0.95, 0.97, 0.98, 0.99,
    0.995, 0.998, 0.999, 0.9995, 0.9998, 0.9999, 1.0,
];

impl Latencies {
    pub fn new() -> Self {
        Latencies(Histogram::new_with_bounds(1, 600_000_000_000, 3).expect("good bounds"))
    }

    pub fn record(&mut self, latency: Duration) {
        self.0
            .saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
    }

    pub fn clear(&mut self) {
        self.0.reset();
    }

    /// Microseconds at the percentiles that are quoted, and the whole curve for plots.
    pub fn summary(&self) -> Value {
        let at = |part: f64| self.0.value_at_quantile(part) as f64 / 1e3;
        let curve: Vec<_> = QUANTILES.iter().map(|&part| (part, at(part))).collect();
        json!({
            "count": self.0.len(),
            "mean_us": self.0.mean() / 1e3,
            "p50_us": at(0.5),
            "p90_us": at(0.9),
            "p99_us": at(0.99),
            "p999_us": at(0.999),
            "max_us": self.0.max() as f64 / 1e3,
            "curve_us": curve,
        })
    }
}

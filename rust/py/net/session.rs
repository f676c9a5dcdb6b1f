//! `SessionLoan`: a fetch session that is served without Python, until it is taken back. The glue of
//! `crate::direct::session`.

use std::sync::Arc;
use std::time::Instant;

use pyo3::prelude::*;

use super::direct::Direct;
use super::fetch::PartitionToRead;
use super::hub::Shared;
use crate::direct::session::{Asked, Entry, Following, Loan, Session, Told};
use crate::log;

/// A partition, with the high watermark and the log start offset that the client was told.
pub type Lent = (Py<PartitionToRead>, i64, i64);

#[pyclass(frozen, module = "ottla._core")]
pub struct SessionLoan {
    direct: Arc<Direct>,
    hub: Shared,
    session: Arc<Session<Py<PyAny>>>,
    lent: Instant,
    lent_ms: u64,
}

impl SessionLoan {
    pub fn lend(
        (direct, hub): (&Arc<Direct>, &Shared),
        (id, epoch): (i32, i32),
        reader: log::Reader,
        (entries, partitions_max): (&[Lent], usize),
        now_ms: u64,
        following: Option<Following>,
    ) -> Self {
        let entries = entries
            .iter()
            .map(|(one, high_watermark, log_start_offset)| {
                let one = one.get();
                Entry {
                    topic: Arc::clone(&one.topic),
                    partition: one.partition,
                    asked: Asked {
                        leader_epoch: one.leader_epoch,
                        offset: one.offset,
                        log_start_offset: one.log_start_offset,
                        bytes_max: one.bytes_max,
                        last_epoch: one.last_fetched_epoch,
                    },
                    told: Told {
                        high_watermark: *high_watermark,
                        log_start_offset: *log_start_offset,
                    },
                }
            });
        let loan = Loan {
            epoch,
            entries: entries.collect(),
        };
        let session = Session::new(id, reader, loan, partitions_max);
        Self {
            session: direct.lend(match following {
                Some(following) => session.of_follower(following),
                None => session,
            }),
            direct: Arc::clone(direct),
            hub: Arc::clone(hub),
            lent: Instant::now(),
            lent_ms: now_ms,
        }
    }
}

#[pymethods]
impl SessionLoan {
    /// The next epoch, and the partitions in the order in which they are read.
    fn take_back(&self, py: Python<'_>) -> PyResult<(i32, Vec<Lent>)> {
        let loan = self.direct.take_back(&self.hub, &self.session);
        let entries = loan.entries.into_iter().map(|entry| {
            let Entry { asked, told, .. } = entry;
            let one = PartitionToRead {
                key: (&*entry.topic, entry.partition).into_pyobject(py)?.unbind(),
                topic: entry.topic,
                partition: entry.partition,
                offset: asked.offset,
                bytes_max: asked.bytes_max,
                leader_epoch: asked.leader_epoch,
                last_fetched_epoch: asked.last_epoch,
                log_start_offset: asked.log_start_offset,
            };
            Ok((
                Py::new(py, one)?,
                told.high_watermark,
                told.log_start_offset,
            ))
        });
        Ok((loan.epoch, entries.collect::<PyResult<_>>()?))
    }

    /// When a request was served in it last, and how many partitions it has.
    #[getter]
    fn used(&self) -> (u64, usize) {
        let (used, partitions) = self.session.used();
        let since = used.saturating_duration_since(self.lent).as_millis();
        let used_ms = self.lent_ms + u64::try_from(since).unwrap_or(0);
        (used_ms, partitions)
    }
}

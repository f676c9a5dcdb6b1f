//! A fetcher against a leader that says what the test tells it to say, over a real socket, with real logs.
//!
//! Test and fetcher take turns: the fetcher's next request shows that it is done with the last answer.

mod connections;
mod errors;
mod fetching;
mod leader;
mod throttled;
mod turns;

use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Once};
use std::time::Duration;

use super::{
    Event, Fetcher, FetcherSettings, Kind, LargeAnswers, PartitionKey, Quota, Replica, Terms,
    Window,
};
use crate::log::config::LogConfig;
use crate::log::tests::{Folder, batch};
use crate::log::{Log, LogError};
use crate::net::transport::Transport;
use crate::records::stamp;
use crate::traffic::Count;
use leader::Leader;

/// Longer than anything takes: what would wait for it fails.
pub const LONG: Duration = Duration::from_secs(30);

pub fn settings(leader: &Leader) -> FetcherSettings {
    FetcherSettings {
        host: "127.0.0.1".to_owned(),
        port: leader.port(),
        replica_id: 2,
        client_id: "broker-2-fetcher-0".to_owned(),
        fetch_version: 12,
        wait_max_ms: 500,
        bytes_min: 1,
        response_bytes_max: 10 << 20,
        partition_bytes_max: 1 << 20,
        batch_bytes_max: 1 << 20,
        backoff: Duration::from_millis(300),
        socket_timeout: LONG,
        receive_buffer_bytes: 64 * 1024,
        transport: Transport::Plain,
        greeting: None,
    }
}

/// A fetcher whose events are waited for.
pub struct Fetching {
    pub fetcher: Fetcher,
    /// Without limit at first.
    pub quota: Arc<Quota>,
    notified: Receiver<()>,
}

impl Fetching {
    pub fn start(settings: FetcherSettings) -> Self {
        Self::start_with(settings, &Arc::new(LargeAnswers::new(1).unwrap()))
    }

    pub fn start_with(settings: FetcherSettings, large: &Arc<LargeAnswers>) -> Self {
        quiet();
        let (notify, notified) = channel();
        let notify = move || notify.send(()).unwrap_or_default();
        let window = Window {
            samples: 11,
            size: Duration::from_secs(1),
        };
        let quota = Arc::new(Quota::new(window));
        let fetcher = Fetcher::start(settings, Arc::clone(&quota), Arc::clone(large), notify);
        let fetcher = fetcher.unwrap();
        Self {
            fetcher,
            quota,
            notified,
        }
    }

    pub fn add(&self, name: &str, log: &Arc<Log>, leader_epoch: i32) {
        self.add_replica(name, Arc::new(Arc::clone(log)), leader_epoch);
    }

    pub fn add_replica(&self, name: &str, replica: Arc<dyn Replica>, leader_epoch: i32) {
        self.fetcher.add(vec![(key(name), replica, leader_epoch)]);
    }

    /// The one event that there is, or that comes next.
    pub fn event(&self) -> Event {
        self.notified.recv_timeout(LONG).expect("there is no event");
        let mut events = self.fetcher.take_events();
        assert_eq!(events.len(), 1, "{events:?}");
        events.remove(0)
    }

    pub fn has_no_events(&self) {
        assert_eq!(self.fetcher.take_events(), []);
        assert!(self.notified.try_recv().is_err());
    }

    pub fn lag(&self, name: &str) -> i64 {
        let lags = self.fetcher.figures().lags;
        lags.iter().find(|lag| lag.0 == key(name)).unwrap().1
    }
}

/// Panics on purpose are not printed.
fn quiet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| crate::io::panics::report_to(drop));
}

/// The partition of a name such as `orders-3`.
pub fn key(name: &str) -> PartitionKey {
    let (topic, partition) = name.rsplit_once('-').unwrap();
    PartitionKey::new(topic, partition.parse().unwrap())
}

/// A log of its own folder.
pub struct Local {
    pub log: Arc<Log>,
    _folder: Folder,
}

pub fn log() -> Local {
    log_with(LogConfig::default())
}

pub fn log_with(config: LogConfig) -> Local {
    let folder = Folder::new();
    let log = folder.open(config, true);
    Local {
        log,
        _folder: folder,
    }
}

/// A batch with these values as a leader of `epoch` has it from offset `from` on.
pub fn records(from: i64, epoch: i32, values: &[&str]) -> Vec<u8> {
    let mut bytes = batch(values, 1_000);
    stamp(&mut bytes, from, epoch, None);
    bytes
}

/// All bytes of a log.
pub fn bytes(log: &Log) -> Vec<u8> {
    let read = log.read(log.start_offset(), 1 << 20, i64::MAX, true);
    read.unwrap()
        .slice
        .map_or_else(Vec::new, |slice| slice.read().unwrap())
}

/// A replica whose appends do what the test wants.
pub struct Acting<F> {
    pub log: Arc<Log>,
    pub act: F,
}

impl<F: Fn(&[u8], i32) -> Result<(), LogError> + Send + Sync> Replica for Acting<F> {
    fn start_offset(&self) -> i64 {
        self.log.start_offset()
    }

    fn end_offset(&self) -> i64 {
        self.log.end_offset()
    }

    fn last_epoch(&self) -> i32 {
        self.log.last_epoch()
    }

    fn append_bytes_max(&self) -> usize {
        self.log.append_bytes_max()
    }

    fn append(&self, records: &[u8], leader_epoch: i32) -> Result<(), LogError> {
        (self.act)(records, leader_epoch)?;
        self.log.append(records, leader_epoch)
    }

    fn append_of_any_epoch(&self, records: &[u8], leader_epoch: i32) -> Result<(), LogError> {
        self.log.append_of_any_epoch(records, leader_epoch)
    }

    fn set_high_watermark(&self, offset: i64) {
        Replica::set_high_watermark(&self.log, offset);
    }

    fn move_start_offset(&self, offset: i64) -> Result<(), LogError> {
        self.log.move_start_offset(offset)
    }
}

/// The fields of an event, without its message.
pub fn said(event: &Event) -> (String, Kind, i16, i32, i64) {
    let name = event.partition.as_ref();
    let name = name.map_or_else(String::new, ToString::to_string);
    (name, event.kind, event.code, event.epoch, event.offset)
}

//! Rules of a brittle disk: which operations on the records of which partitions fail, are late, or are lost.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// An operation on a file with records that may break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Read,
    Write,
    Sync,
}

/// The partition that a file with records belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    topic: String,
    partition: i32,
}

impl Place {
    /// The partition of `TOPIC-N/NAME.log`; None for every other file.
    pub fn of_file(path: &Path) -> Option<Self> {
        if path.extension()? != "log" {
            return None;
        }
        let (topic, number) = path.parent()?.file_name()?.to_str()?.rsplit_once('-')?;
        Some(Self {
            topic: topic.to_owned(),
            partition: number.parse().ok()?,
        })
    }
}

/// The fate of an operation that meets a rule.
#[derive(Clone, Copy, Debug, Default)]
pub struct Deed {
    /// The number of the system's error.
    pub errno: Option<i32>,
    /// Success is reported, and nothing is done.
    pub is_lost: bool,
    /// How long it takes first.
    pub delay: Duration,
}

impl Deed {
    /// The error that is answered, if one is.
    pub fn error(&self) -> Option<io::Error> {
        self.errno.map(io::Error::from_raw_os_error)
    }
}

/// One rule, and the count of the operations that it has met.
pub struct Rule {
    operation: Operation,
    topic: Option<String>,
    partition: Option<i32>,
    deed: Deed,
    times: Option<u64>,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// How many operations go by before one meets the rule.
    left_out: u64,
    hits: u64,
}

impl Rule {
    /// A rule for the operations on the records of a topic and a partition, or of any for None. `after` of them go by,
    /// and then `times` meet it, or all for None.
    pub fn new(
        operation: Operation,
        topic: Option<String>,
        partition: Option<i32>,
        deed: Deed,
        after: u64,
        times: Option<u64>,
    ) -> Arc<Self> {
        Arc::new(Self {
            operation,
            topic,
            partition,
            deed,
            times,
            state: Mutex::new(State {
                left_out: after,
                hits: 0,
            }),
            changed: Condvar::new(),
        })
    }

    /// How many operations have met it.
    pub fn hits(&self) -> u64 {
        self.state.lock().hits
    }

    /// Waits until `count` operations have met it, or `timeout` has passed; then the number of those that have.
    pub fn wait(&self, count: u64, timeout: Duration) -> u64 {
        let deadline = Instant::now() + timeout;
        let mut state = self.state.lock();
        self.changed
            .wait_while_until(&mut state, |state| state.hits < count, deadline);
        state.hits
    }

    /// True if it will never meet anything again.
    pub fn is_spent(&self) -> bool {
        self.is_spent_after(self.state.lock().hits)
    }

    fn is_spent_after(&self, hits: u64) -> bool {
        self.times.is_some_and(|times| hits >= times)
    }

    fn is_about(&self, operation: Operation, place: &Place) -> bool {
        self.operation == operation
            && self
                .topic
                .as_ref()
                .is_none_or(|topic| *topic == place.topic)
            && self
                .partition
                .is_none_or(|number| number == place.partition)
    }

    fn meet(&self) -> Option<Deed> {
        let mut state = self.state.lock();
        if self.is_spent_after(state.hits) {
            return None;
        }
        if state.left_out > 0 {
            state.left_out -= 1;
            return None;
        }
        state.hits += 1;
        self.changed.notify_all();
        Some(self.deed)
    }
}

/// The rules of one disk, in the order in which they were made: an operation meets the first that is about it and is
/// due.
#[derive(Default)]
pub struct Rules {
    is_used: AtomicBool,
    rules: Mutex<Vec<Arc<Rule>>>,
}

impl Rules {
    pub fn add(&self, rule: Arc<Rule>) {
        let mut rules = self.rules.lock();
        rules.push(rule);
        self.is_used.store(true, Ordering::Release);
    }

    pub fn remove(&self, rule: &Arc<Rule>) {
        self.keep(|one| !Arc::ptr_eq(one, rule));
    }

    fn keep(&self, stays: impl Fn(&Arc<Rule>) -> bool) {
        let mut rules = self.rules.lock();
        rules.retain(stays);
        self.is_used.store(!rules.is_empty(), Ordering::Release);
    }

    /// The fate of an operation; None where it is done as asked.
    pub fn meet(&self, operation: Operation, place: &Place) -> Option<Deed> {
        if !self.is_used.load(Ordering::Acquire) {
            return None;
        }
        let deed = {
            let rules = self.rules.lock();
            let about = rules.iter().filter(|one| one.is_about(operation, place));
            about.into_iter().find_map(|one| one.meet())
        };
        if deed.is_some() {
            self.keep(|one| !one.is_spent());
        }
        deed
    }

    /// True if a rule is about such operations there.
    pub fn is_due(&self, operation: Operation, place: &Place) -> bool {
        self.is_used.load(Ordering::Acquire)
            && self
                .rules
                .lock()
                .iter()
                .any(|one| one.is_about(operation, place))
    }

    /// True if a rule is about such operations anywhere.
    pub fn are_about(&self, operation: Operation) -> bool {
        self.is_used.load(Ordering::Acquire)
            && self
                .rules
                .lock()
                .iter()
                .any(|one| one.operation == operation)
    }
}

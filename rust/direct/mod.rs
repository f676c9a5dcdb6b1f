//! Plain Produces and Fetches, served without Python.
//!
//! Python decides what may be done with a partition. For a plain request the decision is the same from one to the next
//! until something happens to the partition. So Python grants a [`Lease`], which knows the partition's [`Terms`] and
//! nothing else, and ends it before anything happens. Under a lease a plain request is served here. Every other
//! request, every error and every doubt is handed on to Python, with the request as it came. `OTTLA_LEASES=off` leaves
//! everything to Python; the answers are the same.
//!
//! At the end of a turn the batches are written. If nobody in Python has to hear of that (the high watermark is the
//! log's end, or what all followers have that are served here; no request waits in Python; no flush is due; nothing
//! failed), the turn ends here too; else Python ends it with [`Direct::written`] and [`Direct::answer`].
//!
//! All methods may be called by several threads, which may also serve the requests of one hub at once. What is shared
//! and what is a thread's own:
//!
//! | what | whose | how threads meet |
//! |---|---|---|
//! | the leases ([`leases`]) | shared | snapshots: who looks one up waits for nobody |
//! | whether a lease holds ([`gate`]) | shared | asked by an append, and where a high watermark is moved |
//! | who may do what under a lease ([`rights`]) | shared | snapshots, as the leases |
//! | the log | shared | a lock a log; who finds it taken waits 100 microseconds, then hands the request on |
//! | waiting Fetches ([`parked`]) | shared | a line a lease, one heap of deadlines, a lock a Fetch |
//! | waiting Produces ([`others`]) | shared | a line a lease |
//! | what followers have ([`followers`]) | shared, with Python | a lock a follower, held for a moment |
//! | fetch sessions that are lent ([`sessions`]) | shared | a lock a session; who looks one up holds none |
//! | the hub | shared | its lock, never held during an append or a read |
//! | the turn ([`turn`]) | a thread's | nobody else sees it |
//!
//! So threads that append to different partitions do not wait for each other here. What a thread appended it has
//! written, and answers, itself; if the hub told the end of the requests to another thread, then when the hub has
//! nothing more for it. A thread beside the loop serves a hub of its own, and hands the rest of its turn to the loop
//! where Python has to hear of it ([`serving`]). Turns of several threads share the writes of a log, so that a thread's
//! batches may be written by another, or not be written. The log says of each append whether it is there
//! ([`Log::lost`]).
//!
//! [`Log::lost`]: crate::log::Log::lost
//!
//! Locks are taken in this order: a fetch session, the deadlines, one line of waiting Fetches or one of these, the hub.
//! A lease's gate is held for a moment, and nothing is locked meanwhile but what a follower has. No lock of this room
//! is held while an owner is dropped: an owner may be an object of Python, and whatever that takes with it may call
//! this room.
//!
//! # The table of checks
//!
//! A request is plain only if every check below lets it pass. The last column says where the check is made under a
//! lease:
//!
//! * `hub`: the hub's gate hands out no request that fails it (`net::session`);
//! * `here`: this room looks at the request, and hands on what it does not serve;
//! * `terms`: Python looks when it grants, and a change ends the lease (`Partition.terms` and `Partition.change`);
//! * `broker`: Python grants no lease at all (`Leases.allow`);
//! * `log`: the log refuses on append or read, here as under Python; the error is handed on.
//!
//! `tests/broker/leases/test_direct_table.py` compares the table with what the handlers ask in Python. A check that is
//! added there without a row here fails that test: decide where it is made under a lease first.
//!
//! | request | check | where |
//! |---|---|---|
//! | Produce | the connection may speak | hub |
//! | Produce | it is known whom the client's certificate stands for | here |
//! | Produce | version is 3 or later | here |
//! | Produce | acks is 0 or 1; or all, where no flush is waited for | here, terms |
//! | Produce | one partition | here |
//! | Produce | partition is known, this broker leads it, its directory is in use | terms |
//! | Produce | topic is not internal | here, terms |
//! | Produce | everyone may write; or it is known that this client may, and with producer ids | terms, here |
//! | Produce | records are there | here |
//! | Produce | outside of transactions (transactional id, transactional batch) | here |
//! | Produce | format 2; zstd from version 7 on | here |
//! | Produce | enough replicas in sync, for acks=all | terms |
//! | Produce | leader epoch | log |
//! | Produce | length, checksum, every field of every record, one batch, no control batch | log |
//! | Produce | size of the batch and of the segment, timestamps, keys on compacted topics | log |
//! | Produce | producer epoch, sequence number, duplicates | log |
//! | Produce | no quotas | broker |
//! | Fetch | the connection may speak | hub |
//! | Fetch | it is known whom the client's certificate stands for | here |
//! | Fetch | version is 4 or later (batches are read as they are stored) | here |
//! | Fetch | version is 10 or later, where the topic is compressed with zstd | here, terms |
//! | Fetch | a consumer; or a follower in a session, on the connection on which Python has lent it | here |
//! | Fetch | a follower that is in sync, starts where it did, and whose log does not part from this one | here |
//! | Fetch | no replica is throttled, or being added | here, terms |
//! | Fetch | the isolation level is known | here |
//! | Fetch | no session, or one that Python has lent, in its epoch, with nothing of it waiting | here |
//! | Fetch | the session keeps its isolation level, and has 1 to 100 partitions, all under leases | here, broker |
//! | Fetch | no rack is named, or the broker chooses no replica by it | here, broker |
//! | Fetch | partition is known, this broker leads it, its directory is in use | terms |
//! | Fetch | topic is not internal, or a follower asks | here, terms |
//! | Fetch | everyone may read; or it is known that this client may read, or follow | terms, here |
//! | Fetch | leader epoch is not told or the same; no epoch of a consumer's last record | here |
//! | Fetch | limits are not negative | here |
//! | Fetch | at most 1000 partitions | here |
//! | Fetch | offset is in the log, and its place in memory | log |
//! | Fetch | enough bytes, or any are waited for, or those of one partition | here |
//! | Fetch | no quotas | broker |

mod fetch;
pub mod followers;
mod gate;
mod leases;
mod others;
mod parked;
mod produce;
pub mod rights;
pub mod serving;
pub mod session;
mod sessions;
mod terms;
#[cfg(test)]
mod tests;
mod turn;

/// The types of [`gate`].
mod sync {
    pub use std::sync::atomic::{AtomicBool, Ordering};

    pub use parking_lot::Mutex;
}

use std::io;
use std::mem;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use self::leases::Leases;
use self::parked::Due;
pub use self::produce::Appended;
use self::serving::Rest;
use self::sessions::Sessions;
pub use self::terms::{Followers, Lease, Terms};
use self::turn::Ended;
pub use self::turn::{Turn, Written};
use crate::net::hub::{self, Event, Hubs, Incoming};
use crate::wire::keys::{FETCH, PRODUCE};

const NOT_LEADER_OR_FOLLOWER: i16 = 6;

/// The leases of one broker, and what is done under them. `O`: what the grantor knows a partition by.
pub struct Direct<O> {
    leases: Leases<O>,
    sessions: Sessions<O>,
    /// `fetch.max.bytes`
    fetch_bytes_max: AtomicU64,
    /// Fetches that name their rack are plain too: nobody is told to read elsewhere.
    serves_racks: AtomicBool,
    due: Mutex<Due<O>>,
    /// The ends of turns of other threads, for the loop.
    rests: Mutex<Vec<Rest<O>>>,
}

impl<O> Default for Direct<O> {
    fn default() -> Self {
        Self {
            leases: Leases::default(),
            sessions: Sessions::default(),
            fetch_bytes_max: AtomicU64::new(0),
            serves_racks: AtomicBool::new(false),
            due: Mutex::default(),
            rests: Mutex::default(),
        }
    }
}

impl<O> Direct<O> {
    /// Serves a partition under a lease, in place of any that it had.
    pub fn grant<T>(&self, hubs: &Hubs<T>, lease: Lease<O>) -> Arc<Lease<O>> {
        let lease = Arc::new(lease);
        if let Some(before) = self.leases.put(&lease) {
            // Python ends a lease before it grants another, so no Produce waits here. After this error a client sends
            // its records again.
            for waiting in self.over(hubs, &before) {
                waiting.answer_at(hubs, NOT_LEADER_OR_FOLLOWER);
            }
        }
        lease
    }

    /// Ends a lease: when this returns, no request is begun under it, and nothing is decided (see [`gate`]). Fetches
    /// that wait under it are answered; the next ones are told what happened. Returns the Produces that wait for other
    /// replicas: the caller sees to their answers.
    #[must_use]
    pub fn end<T>(&self, hubs: &Hubs<T>, lease: &Arc<Lease<O>>) -> Vec<Appended<O>> {
        self.leases.remove(lease);
        self.over(hubs, lease)
    }

    /// How many bytes one Fetch gets at most, and whether one that names its rack is served here. None is before this
    /// is called.
    pub fn limit_fetches(&self, bytes_max: u64, serves_racks: bool) {
        self.fetch_bytes_max.store(bytes_max, Ordering::Release);
        self.serves_racks.store(serves_racks, Ordering::Release);
    }

    /// Waits for the loop's hub as [`hub::wait`] does, and serves what comes. Returns the first event that is not
    /// served here; None: the time is over, a signal came, or what is watched beside the hub is ready.
    pub fn wait<T>(
        &self,
        hubs: &Hubs<T>,
        turn: &mut Turn<O>,
        fd: BorrowedFd<'_>,
        timeout: Duration,
    ) -> io::Result<Option<Event<T>>> {
        let began = Instant::now();
        loop {
            let due = self.expire(hubs);
            let mut left = timeout.saturating_sub(began.elapsed());
            if let Some(due) = due {
                left = left.min(due.saturating_duration_since(Instant::now()));
            }
            let event = hub::wait(hubs.loops(), fd, left)?;
            let is_over = event.is_none();
            let passed = self.pass(hubs, turn, event)?;
            // A turn that was served here ends no wait; nor does a deadline of a Fetch.
            let is_due = due.is_some_and(|due| due <= Instant::now());
            if passed.is_some() || is_over && !is_due || began.elapsed() >= timeout {
                return Ok(passed);
            }
        }
    }

    /// Returns `event`, or the first one after it, that is not served here. None: the turn is over. A thread that got a
    /// request gets [`Event::Served`] afterwards, before None.
    pub fn pass<T>(
        &self,
        hubs: &Hubs<T>,
        turn: &mut Turn<O>,
        mut event: Option<Event<T>>,
    ) -> io::Result<Option<Event<T>>> {
        loop {
            let is_over = event.is_none();
            match event {
                Some(Event::Request(incoming)) => {
                    if let Some(incoming) = self.serve(hubs, turn, incoming) {
                        turn.awaits(true);
                        return Ok(Some(Event::Request(incoming)));
                    }
                }
                None | Some(Event::Served) => match self.end_loops_turn(hubs, turn, is_over) {
                    Ended::ByOthers => return Ok(Some(Event::Served)),
                    Ended::Before if is_over => return Ok(None),
                    Ended::Before | Ended::Here => {}
                },
                Some(
                    Event::Completion(_)
                    | Event::Disconnected(_)
                    | Event::Reserved { .. }
                    | Event::Failed(_),
                ) => {
                    turn.awaits(false);
                    return Ok(event);
                }
            }
            event = hubs.loops().lock().next_event()?;
        }
    }

    /// Serves a request, if a lease allows it; else gives it back as it came.
    fn serve<T>(&self, hubs: &Hubs<T>, turn: &mut Turn<O>, incoming: Incoming) -> Option<Incoming> {
        if incoming.origin.awaits_principal() {
            return Some(incoming);
        }
        match incoming.ticket.api_key {
            PRODUCE => self.serve_produce(hubs, turn, incoming),
            FETCH => self.serve_fetch(hubs, turn, incoming),
            _ => Some(incoming),
        }
    }

    /// Deadlines are looked at from now on, or not: then no Fetch may wait.
    pub fn let_wait<T>(&self, hubs: &Hubs<T>, may: bool) {
        let before = mem::replace(&mut self.due.lock().may_park, may);
        if before && !may {
            for lease in self.leases.all() {
                self.release(hubs, &lease);
            }
        }
    }
}

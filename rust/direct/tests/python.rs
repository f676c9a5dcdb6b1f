//! A stub in Python's place.

use super::*;

/// The stub, and what has come to it.
#[derive(Default)]
pub struct Python {
    pub handed_on: AtomicUsize,
    /// Of the request that was handed on last.
    pub connection: AtomicU64,
    pub turns: AtomicUsize,
    /// Ended by the next request that is handed on.
    pub to_end: Mutex<Option<OneLease>>,
    /// The rights that the client of the next request that is handed on turns out to have, and its number.
    pub to_allow: Mutex<Option<(OneLease, u64, u8)>>,
    pub unacknowledged: Mutex<Vec<Appended<&'static str>>>,
    /// Why threads could not go on.
    pub failures: Mutex<Vec<String>>,
    /// Others have come to be in sync: the high watermark is not the end of the log any more.
    pub others_are_in_sync: AtomicBool,
    pub stop: AtomicBool,
}

/// The loop, which does for requests that are handed on what Python would.
pub fn serve(direct: &Direct<&'static str>, hub: &Shared, python: &Python) {
    let epoll = Arc::clone(hub.loops().lock().fd());
    let mut turn = Turn::default();
    while !python.stop.load(Ordering::Acquire) {
        let wait = Duration::from_millis(5);
        let mut event = direct.wait(hub, &mut turn, epoll.as_fd(), wait).unwrap();
        while let Some(told) = event {
            match told {
                Event::Request(incoming) => {
                    python.handed_on.fetch_add(1, Ordering::AcqRel);
                    let connection = incoming.ticket.connection;
                    python.connection.store(connection, Ordering::Release);
                    check_unchanged(&incoming);
                    if let Some(lease) = python.to_end.lock().take() {
                        let waiting = direct.end(hub, &lease);
                        python.unacknowledged.lock().extend(waiting);
                    }
                    if let Some((lease, client, rights)) = python.to_allow.lock().take() {
                        incoming.origin.number(client);
                        lease.allow(client, rights);
                    }
                    let write = |to: &mut Vec<u8>| to.extend_from_slice(HANDED_ON);
                    let ticket = incoming.ticket;
                    hub.of(ticket.connection).reply(ticket, write, Vec::new());
                }
                Event::Served => {
                    python.turns.fetch_add(1, Ordering::AcqRel);
                    for written in direct.written(&mut turn) {
                        let lease = written.lease;
                        assert_eq!(lease.owner, "owner");
                        // Of the partition, whatever became of the lease.
                        let others = python.others_are_in_sync.load(Ordering::Acquire);
                        let is_alone = lease.terms.is_alone && !others;
                        if is_alone && lease.log.advance_high_watermark() {
                            let leases = direct.leases.all();
                            leases.iter().for_each(|one| direct.advanced(hub, one));
                        }
                    }
                    let unacknowledged = direct.answer(hub, &mut turn);
                    python.unacknowledged.lock().extend(unacknowledged);
                }
                Event::Failed(reason) => python.failures.lock().push(reason),
                Event::Completion(_) | Event::Disconnected(_) | Event::Reserved { .. } => {}
            }
            let next = hub.loops().lock().next_event().unwrap();
            event = direct.pass(hub, &mut turn, next).unwrap();
        }
    }
}

/// A request that is handed on has no offset in it.
fn check_unchanged(incoming: &Incoming) {
    let body = &incoming.frame[incoming.header.body_start..];
    if incoming.ticket.api_key == PRODUCE
        && let Ok(request) = produce::decode_request(body, incoming.ticket.api_version)
    {
        for records in request.partitions.into_iter().filter_map(|one| one.records) {
            assert!(records.len() < 61 || body[records.start..][..8] == [0; 8]);
        }
    }
}

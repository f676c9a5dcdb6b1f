//! TLS handshakes, on a thread of their own: a signature takes as long as hundreds of requests.
//!
//! A connection with TLS that was accepted and let in comes here first, and goes on to the hub that serves it when its
//! handshake is done. So hubs never see one that is not, and a flood of handshakes takes this thread's time only. A
//! handshake has `HANDSHAKE_MS`, and there are at most `HANDSHAKES_MAX`: one that comes then ends the oldest of the
//! address that has the most.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use super::*;
use crate::io::panics::catching;
use crate::net::limits::{HANDSHAKE_MS, HANDSHAKES_MAX};
use crate::net::listeners::{PerIp, Subject};
use crate::net::tls::{Failed, Progress, ServerConfig, Tls};

/// A connection, and the number of the hub that it goes to.
type Coming = (usize, Arrival);

/// The thread, as the hub that accepts sees it. Dropped, it ends, and all that it has.
pub(super) struct Handshakes {
    door: Arc<Door>,
    thread: Option<JoinHandle<()>>,
}

struct Door {
    coming: Mutex<Vec<Coming>>,
    under_way: AtomicUsize,
    /// A place is wanted for a connection that comes.
    wants_room: AtomicBool,
    is_closed: AtomicBool,
    wake: Wake,
}

impl Handshakes {
    pub fn start<T: Send + 'static>(
        joint: Arc<Joint<T>>,
        acceptor: Arc<Mutex<Acceptor>>,
    ) -> io::Result<Self> {
        let door = Arc::new(Door {
            coming: Mutex::default(),
            under_way: AtomicUsize::new(0),
            wants_room: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
            wake: Wake::new()?,
        });
        let mut room = Room::new(Arc::clone(&door), joint, acceptor)?;
        let thread = Builder::new().name("ottla-handshakes".to_owned());
        let thread = thread.spawn(move || {
            while !room.door.is_closed.load(Ordering::Acquire) {
                // A panic costs the handshakes that are under way.
                if !matches!(catching(|| room.run()), Ok(Ok(()))) {
                    room.end_all(Some("the thread of its TLS handshake failed"));
                }
            }
            room.end_all(None);
        })?;
        Ok(Self {
            door,
            thread: Some(thread),
        })
    }

    pub fn begin(&self, hub: usize, arrival: Arrival) {
        self.door.coming.lock().push((hub, arrival));
        self.door.wake.signal();
    }

    /// Has the oldest handshake end, for a connection that comes. False if there is none.
    pub fn make_room(&self) -> bool {
        let is_any = self.door.under_way.load(Ordering::Relaxed) > 0;
        if is_any {
            self.door.wants_room.store(true, Ordering::Release);
            self.door.wake.signal();
        }
        is_any
    }
}

impl Drop for Handshakes {
    fn drop(&mut self) {
        self.door.is_closed.store(true, Ordering::Release);
        self.door.wake.signal();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The thread's own side.
struct Room<T> {
    door: Arc<Door>,
    joint: Arc<Joint<T>>,
    acceptor: Arc<Mutex<Acceptor>>,
    epoll: OwnedFd,
    under_way: HashMap<u64, Coming>,
    per_ip: PerIp,
    /// Those that have begun and when they are late, in the order of their coming; some are over.
    order: VecDeque<(u64, Instant)>,
    next: u64,
}

impl<T> Room<T> {
    fn new(
        door: Arc<Door>,
        joint: Arc<Joint<T>>,
        acceptor: Arc<Mutex<Acceptor>>,
    ) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let data = EventData::new_u64(WAKE);
        epoll::add(&epoll, door.wake.fd(), data, EventFlags::IN)?;
        Ok(Self {
            door,
            joint,
            acceptor,
            epoll,
            under_way: HashMap::new(),
            per_ip: PerIp::default(),
            order: VecDeque::new(),
            next: 0,
        })
    }

    fn run(&mut self) -> io::Result<()> {
        let mut space = [const { MaybeUninit::uninit() }; EVENTS_MAX];
        while !self.door.is_closed.load(Ordering::Acquire) {
            let time = self.patience().map(|left| Timespec {
                tv_sec: left.as_secs() as i64,
                tv_nsec: left.subsec_nanos().into(),
            });
            let readiness: &[epoll::Event] =
                match epoll::wait(&self.epoll, &mut space, time.as_ref()) {
                    Ok((readiness, _)) => readiness,
                    Err(rustix::io::Errno::INTR) => continue,
                    Err(error) => return Err(error.into()),
                };
            for event in readiness {
                match event.data.u64() {
                    WAKE => self.take_in(),
                    id => self.go_on(id),
                }
            }
            self.expire();
            let under_way = self.under_way.len();
            self.door.under_way.store(under_way, Ordering::Relaxed);
        }
        Ok(())
    }

    /// How long nothing is late. None: there is nothing.
    fn patience(&mut self) -> Option<Duration> {
        while let Some((id, late_at)) = self.order.front() {
            if self.under_way.contains_key(id) {
                return Some(late_at.saturating_duration_since(Instant::now()));
            }
            self.order.pop_front();
        }
        None
    }

    fn take_in(&mut self) {
        self.door.wake.clear();
        if self.door.wants_room.swap(false, Ordering::AcqRel) {
            self.end_oldest("RLIMIT_NOFILE leaves no descriptor for a new connection");
        }
        let coming = mem::take(&mut *self.door.coming.lock());
        for (hub, arrival) in coming {
            let id = self.next;
            self.next += 1;
            let data = EventData::new_u64(id);
            if let Err(error) = epoll::add(&self.epoll, &arrival.transport, data, EventFlags::IN) {
                self.end((hub, arrival), Some(error.to_string()));
                continue;
            }
            self.per_ip.add(arrival.origin.peer.ip());
            self.under_way.insert(id, (hub, arrival));
            let late_at = Instant::now() + Duration::from_millis(HANDSHAKE_MS);
            self.order.push_back((id, late_at));
            if self.under_way.len() > HANDSHAKES_MAX {
                self.end_oldest("too many TLS handshakes are under way");
            }
        }
    }

    fn take_out(&mut self, id: u64) -> Option<Coming> {
        let one = self.under_way.remove(&id)?;
        self.per_ip.leave(one.1.origin.peer.ip());
        Some(one)
    }

    /// Ends one of the address that has the most: whoever begins many handshakes takes the place of his own.
    fn end_oldest(&mut self, reason: &str) {
        let most = self.per_ip.most();
        let mut order = self.order.iter().map(|(id, _)| *id);
        let oldest = order.find(|id| {
            let one = self.under_way.get(id);
            one.is_some_and(|(_, arrival)| Some(arrival.origin.peer.ip().to_canonical()) == most)
        });
        if let Some(oldest) = oldest.and_then(|id| self.take_out(id)) {
            let address = oldest.1.origin.peer.ip();
            let reason = format!(
                "{reason}, most of them are from {address}, and the TLS handshake of this one was the oldest"
            );
            self.end(oldest, Some(reason));
        }
    }

    fn expire(&mut self) {
        let now = Instant::now();
        while let Some((id, late_at)) = self.order.front().copied()
            && (late_at <= now || !self.under_way.contains_key(&id))
        {
            self.order.pop_front();
            if let Some(late) = self.take_out(id) {
                let reason = format!("the TLS handshake took longer than {HANDSHAKE_MS} ms");
                self.end(late, Some(reason));
            }
        }
    }

    /// Takes a handshake as far as it goes.
    fn go_on(&mut self, id: u64) {
        let Some((_, arrival)) = self.under_way.get_mut(&id) else {
            return;
        };
        let Transport::Tls(session) = &mut arrival.transport else {
            return;
        };
        let awaited = match session.handshake() {
            Ok(Progress::Reads) => EventFlags::IN,
            Ok(Progress::Writes) => EventFlags::OUT,
            Ok(Progress::Done) => {
                let (peer, _) = (session.peer(), epoll::delete(&self.epoll, &**session));
                return self.is_over(id, peer);
            }
            Err(failed) => return self.is_over(id, Err(failed)),
        };
        // Fails only for a descriptor that is not registered, and this one is.
        let _ = epoll::modify(&self.epoll, &**session, EventData::new_u64(id), awaited);
    }

    fn is_over(&mut self, id: u64, peer: Result<Option<Box<[u8]>>, Failed>) {
        let Some((hub, arrival)) = self.take_out(id) else {
            return;
        };
        match peer {
            Ok(peer) => self.hand_on(hub, arrival, peer),
            Err(failed) => self.end((hub, arrival), failed.reason()),
        }
    }

    fn hand_on(&self, hub: usize, mut arrival: Arrival, peer: Option<Box<[u8]>>) {
        arrival.origin.subject = peer.map(|name| Subject {
            name,
            is_known: AtomicBool::new(false),
        });
        let is_open = self.acceptor.lock().shook_hands(&arrival.origin, true);
        match is_open {
            true => self.joint.send(hub, arrival),
            false => self.end((hub, arrival), None),
        }
    }

    fn end_all(&mut self, reason: Option<&str>) {
        let coming = mem::take(&mut *self.door.coming.lock());
        let under_way = mem::take(&mut self.under_way).into_values();
        self.per_ip = PerIp::default();
        self.order.clear();
        for one in under_way.chain(coming).collect::<Vec<_>>() {
            self.end(one, reason.map(str::to_owned));
        }
    }

    /// Closes a connection that did not come in.
    fn end(&self, (hub, arrival): Coming, reason: Option<String>) {
        let Arrival { origin, .. } = arrival;
        {
            let mut acceptor = self.acceptor.lock();
            if reason.is_some() {
                acceptor.shook_hands(&origin, false);
            }
            acceptor.left(&origin);
        }
        self.joint.left(hub);
        self.joint.hand(Event::Disconnected(Disconnected {
            connection: 0,
            reason,
            origin: Arc::new(origin),
            client_id: None,
        }));
    }
}

impl<T: Send + 'static> Hub<T> {
    /// Connections that come to the listeners of a name from now on have TLS. Not before `listen`, and not while
    /// the hub drains.
    pub fn secure(&mut self, name: &str, config: &Arc<ServerConfig>) -> io::Result<()> {
        // What does not depend on the client fails now, if it fails.
        let beside = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC)?;
        Tls::new(beside, config).map_err(io::Error::other)?;
        if self.handshakes.is_none() {
            let (joint, acceptor) = (Arc::clone(&self.joint), Arc::clone(&self.acceptor));
            self.handshakes = Some(Handshakes::start(joint, acceptor)?);
        }
        for listener in self.acceptor.lock().named(name) {
            listener.transport = Security::Tls(Arc::clone(config));
        }
        Ok(())
    }
}

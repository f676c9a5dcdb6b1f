//! Connections that go from one thread to another.

use rustix::event::epoll;
use rustix::time::Timespec;

use super::super::hub::{Hubs, Ticket};
use super::*;
use crate::net::table::hub_of;

pub(super) struct Several {
    pub hubs: Hubs<u32>,
    port: u16,
    pub ended: Vec<Disconnected>,
    /// The tokens of those that have the memory for which they asked.
    pub granted: Vec<u64>,
}

impl Several {
    /// The loop and two threads, whose turns the test runs.
    pub fn new() -> Self {
        let several = Self::alone(2);
        several.hubs.serve_by(2, |_| Ok(())).unwrap();
        several
    }

    /// The loop, with room for so many threads.
    pub fn alone(threads_max: usize) -> Self {
        Self::of(Limits::default(), threads_max)
    }

    pub fn of(limits: Limits, threads_max: usize) -> Self {
        let apis = HashMap::from([(METADATA, Api::plain(0, 9))]);
        let hubs = Hubs::new(limits, ConnectionLimits::default(), &apis, threads_max).unwrap();
        let port = hubs
            .loops()
            .lock()
            .listen("127.0.0.1", 0, "PLAINTEXT")
            .unwrap();
        Self {
            hubs,
            port,
            ended: Vec::new(),
            granted: Vec::new(),
        }
    }

    fn hub(&self, number: usize) -> Option<&Mutex<Hub<u32>>> {
        self.hubs.all().nth(number)
    }

    /// One turn of a hub; the requests that it brought.
    pub fn turn(&mut self, number: usize) -> Vec<Incoming> {
        let mut requests = Vec::new();
        loop {
            let event = self.hub(number).map(|hub| hub.lock().next_event().unwrap());
            match event.flatten() {
                None => return requests,
                Some(Event::Request(incoming)) => requests.push(incoming),
                Some(Event::Disconnected(gone)) => self.ended.push(gone),
                Some(Event::Reserved {
                    token,
                    is_granted: true,
                }) => self.granted.push(token),
                Some(_) => {}
            }
        }
    }

    /// True if a turn of the hub would find something.
    pub fn is_woken(&self, number: usize) -> bool {
        let fd = Arc::clone(self.hub(number).unwrap().lock().fd());
        let mut space = [const { std::mem::MaybeUninit::uninit() }; 1];
        let (found, _) = epoll::wait(&fd, &mut space, Some(&Timespec::default())).unwrap();
        !found.is_empty()
    }

    /// Turns of all hubs, until one brings a request. Returns that hub's number and the request's ticket.
    pub fn request(&mut self) -> (usize, Ticket) {
        let (number, incoming) = self.incoming();
        (number, incoming.ticket)
    }

    /// The same, with the frame.
    pub fn incoming(&mut self) -> (usize, Incoming) {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            for number in 0..3 {
                if let Some(incoming) = self.turn(number).pop() {
                    return (number, incoming);
                }
            }
        }
        panic!("no request comes");
    }

    /// The request is over without an answer.
    pub fn skip(&self, incoming: &Incoming) {
        let ticket = incoming.ticket;
        self.hubs.of(ticket.connection).skip(ticket);
    }

    pub fn answer(&mut self, ticket: Ticket) {
        self.hubs
            .of(ticket.connection)
            .reply(ticket, |to| to.push(7), Vec::new());
        for number in 0..3 {
            self.turn(number);
        }
    }

    fn client(&self) -> TcpStream {
        TcpStream::connect(("127.0.0.1", self.port)).unwrap()
    }

    /// A client that was answered once: the client, the id of its connection, and another hub than its home.
    pub fn settled(&mut self) -> (TcpStream, u64, usize) {
        let mut client = self.client();
        ask(&mut client);
        let (home, ticket) = self.request();
        assert_eq!(hub_of(ticket.connection), home);
        self.answer(ticket);
        heard(&mut client);
        (client, ticket.connection, 3_usize.abs_diff(home))
    }

    fn moves(&self, id: u64, to: usize) -> bool {
        let hub = self.hub(self.hubs.number_of(id)).unwrap();
        hub.lock().move_to(id, to)
    }

    pub fn until(&mut self, is_so: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !is_so(self) {
            assert!(Instant::now() < deadline, "it does not come true");
            for number in 0..3 {
                self.turn(number);
            }
        }
    }
}

const PATIENCE: Duration = Duration::from_secs(60);

pub(super) fn ask(client: &mut TcpStream) {
    let frame = request_frame(METADATA, 0, false, 7, None, b"").unwrap();
    client.write_all(&frame).unwrap();
}

pub(super) fn heard(client: &mut TcpStream) {
    let mut answer = [0; 9];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(answer, [0, 0, 0, 5, 0, 0, 0, 7, 7]);
}

/// Asks and hears, and returns which hub served it.
pub(super) fn talk(several: &mut Several, client: &mut TcpStream, id: u64) -> usize {
    ask(client);
    let (number, ticket) = several.request();
    assert_eq!(ticket.connection, id);
    several.answer(ticket);
    heard(client);
    number
}

#[test]
fn it_is_served_where_it_went_under_the_same_id() {
    let mut several = Several::new();
    let (mut client, id, other) = several.settled();
    assert!(several.moves(id, other));
    assert_eq!(talk(&mut several, &mut client, id), other);
    // And home again.
    assert!(several.moves(id, hub_of(id)));
    assert_eq!(talk(&mut several, &mut client, id), hub_of(id));
    assert_eq!(several.hubs.moved_total(), 2);
    assert_eq!(several.hubs.figures().connections, 1);
    drop(client);
    several.until(|several| several.ended.len() == 1);
    assert_eq!(several.ended[0].connection, id);
    assert_eq!(several.hubs.figures().connections, 0);
}

#[test]
fn its_place_is_kept_while_it_is_away_and_free_when_it_ended() {
    let mut several = Several::new();
    let (client, id, other) = several.settled();
    assert!(several.moves(id, other));
    // Others come to its home meanwhile.
    let mut others: Vec<_> = (0..8).map(|_| several.settled()).collect();
    let index = |id: u64| id as u32;
    assert!(others.iter().all(|(_, one, _)| index(*one) != index(id)));
    drop(client);
    several.until(|several| several.ended.len() == 1);
    assert_eq!(several.ended[0].connection, id);
    while !others.iter().any(|(_, one, _)| index(*one) == index(id)) {
        assert!(others.len() < 100);
        others.push(several.settled());
    }
    assert!(others.iter().all(|(_, one, _)| *one != id));
    // An answer for the one that is gone finds nobody.
    assert!(several.hubs.of(id).connection_is_gone(id));
}

#[test]
fn nothing_moves_while_something_is_under_way() {
    let mut several = Several::new();
    let (mut client, id, other) = several.settled();
    ask(&mut client);
    let (_, ticket) = several.request();
    assert!(!several.moves(id, other));
    several.answer(ticket);
    heard(&mut client);
    // A part of a frame.
    client.write_all(&[0, 0]).unwrap();
    several.until(|several| !several.hubs.of(id).holds_nothing(id));
    assert!(!several.moves(id, other));
    assert_eq!(several.hubs.moved_total(), 0);
}

#[test]
fn others_find_it_on_its_way() {
    let mut several = Several::new();
    let (mut client, id, other) = several.settled();
    assert!(several.moves(id, other));
    // No turn of the other hub has run.
    several
        .hubs
        .of(id)
        .end_session(id, "its time is over".to_owned());
    several.until(|several| several.ended.len() == 1);
    assert_eq!(several.ended[0].reason.as_deref(), Some("its time is over"));
    assert_eq!(client.read(&mut [0; 1]).unwrap(), 0);
}

#[test]
fn a_listener_that_closes_finds_it_on_its_way() {
    let mut several = Several::new();
    let (mut client, id, other) = several.settled();
    assert!(several.moves(id, other));
    several.hubs.stop_listening("PLAINTEXT");
    several.until(|several| several.ended.len() == 1);
    assert_eq!(client.read(&mut [0; 1]).unwrap(), 0);
}

#[test]
fn a_stop_finds_it_on_its_way() {
    let mut several = Several::new();
    let (mut client, id, other) = several.settled();
    assert!(several.moves(id, other));
    several.hubs.close();
    several.until(|several| several.ended.len() == 1);
    assert_eq!(several.ended[0].connection, id);
    assert_eq!(client.read(&mut [0; 1]).unwrap(), 0);
    assert_eq!(several.hubs.figures().connections, 0);
}

#[test]
fn the_death_of_its_home_does_not_hurt_it() {
    let mut several = Several::new();
    let (mut client, id, other) = several.settled();
    assert!(several.moves(id, other));
    several.turn(other);
    several
        .hubs
        .thread_failed(several.hub(hub_of(id)).unwrap(), "a reason");
    assert_eq!(talk(&mut several, &mut client, id), other);
    // The death of its host does.
    several
        .hubs
        .thread_failed(several.hub(other).unwrap(), "a reason");
    several.until(|several| several.ended.len() == 1);
    assert_eq!(several.ended[0].connection, id);
    assert_eq!(client.read(&mut [0; 1]).unwrap(), 0);
    assert_eq!(several.hubs.figures().connections, 0);
}

/// Two threads send their connections to each other now and then, while another one answers.
#[test]
fn no_request_is_lost_on_the_way() {
    const CLIENTS: usize = 8;
    const ROUNDS: usize = 200;
    let several = Several::new();
    let hubs = &several.hubs;
    let is_over = AtomicUsize::new(0);
    let (requests, handed) = std::sync::mpsc::channel::<Ticket>();
    let serve = |number: usize, requests: std::sync::mpsc::Sender<Ticket>| {
        let hub = hubs.all().nth(number).unwrap();
        let mut turns = 0;
        while is_over.load(Ordering::Relaxed) < CLIENTS {
            loop {
                let event = hub.lock().next_event().unwrap();
                match event {
                    None => break,
                    Some(Event::Request(incoming)) => requests.send(incoming.ticket).unwrap(),
                    Some(_) => {}
                }
            }
            turns += 1;
            // A turn hears of those that have come, the next one of what they say.
            if number > 0 && turns % 5 == 0 {
                let ids = hub.lock().ids();
                for id in ids {
                    hub.lock().move_to(id, 3 - number);
                }
            }
            std::thread::yield_now();
        }
    };
    std::thread::scope(|scope| {
        for number in 0..3 {
            let requests = requests.clone();
            scope.spawn(move || serve(number, requests));
        }
        drop(requests);
        scope.spawn(move || {
            for ticket in handed {
                let hub = &mut hubs.of(ticket.connection);
                hub.reply(ticket, |to| to.push(7), Vec::new());
            }
        });
        for _ in 0..CLIENTS {
            let mut client = several.client();
            client.set_read_timeout(Some(PATIENCE)).unwrap();
            let is_over = &is_over;
            scope.spawn(move || {
                for _ in 0..ROUNDS {
                    // Two are under way, and the answers come together or apart.
                    ask(&mut client);
                    ask(&mut client);
                    heard(&mut client);
                    heard(&mut client);
                }
                is_over.fetch_add(1, Ordering::Relaxed);
            });
        }
    });
    assert!(hubs.moved_total() > ROUNDS as u64);
}

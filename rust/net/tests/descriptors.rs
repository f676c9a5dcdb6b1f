//! More connections than descriptors allow: who is closed for whom, and when nobody is.

use std::cell::Cell;

use super::*;
use crate::net::hub::Ticket;

const BOUND: usize = 4;

fn short_rig() -> Rig {
    let connections = ConnectionLimits {
        descriptors_max: BOUND,
        ..ConnectionLimits::default()
    };
    rig_of(Limits::default(), connections)
}

/// A client at another address of the machine itself.
fn connect_from(host: u8, rig: &Rig) -> TcpStream {
    use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    let at = |host: u8, port: u16| std::net::SocketAddr::from(([127, 0, 0, host], port));
    bind(&socket, &at(host, 0)).unwrap();
    connect(&socket, &at(1, rig.port)).unwrap();
    TcpStream::from(socket)
}

/// Asks for something; how the hub is to answer.
fn ask(rig: &mut Rig, client: &mut TcpStream) -> Ticket {
    client.write_all(&request(METADATA, 7, b"")).unwrap();
    started(rig)
}

fn started(rig: &mut Rig) -> Ticket {
    let ticket = Cell::new(None);
    rig.serve(
        &mut |_, incoming| ticket.set(Some(incoming.ticket)),
        &mut |_| ticket.get().is_some(),
    );
    ticket.get().unwrap()
}

fn answer(rig: &mut Rig, ticket: Ticket) {
    rig.hub.reply(ticket, |_| (), vec![]);
    rig.turn(0, &mut |_, _| {});
}

fn accepted(rig: &mut Rig, count: u64) {
    rig.serve(&mut |_, _| {}, &mut |rig| {
        rig.hub.figures().accepted_total == count
    });
}

/// The ports from which the connections came that the hub closed.
fn closed(rig: &Rig) -> Vec<u16> {
    let said = "this one was idle for longest";
    let closed = rig.ended.iter().filter(|one| {
        let reason = one.reason.as_deref();
        reason.is_some_and(|reason| reason.ends_with(said))
    });
    closed.map(|one| one.origin.peer.port()).collect()
}

/// The hub counts time in milliseconds.
fn next_moment() {
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(2) {
        std::hint::spin_loop();
    }
}

fn port(client: &TcpStream) -> u16 {
    client.local_addr().unwrap().port()
}

#[test]
fn the_longest_idle_of_the_address_with_the_most_makes_room() {
    let mut rig = short_rig();
    // The first of all is idle for longest, but alone at its address.
    let mut clients = vec![connect_from(2, &rig)];
    accepted(&mut rig, 1);
    for count in 2..=BOUND as u64 {
        clients.push(connect_from(1, &rig));
        accepted(&mut rig, count);
    }
    assert_eq!(closed(&rig), [0; 0]);
    next_moment();
    let asked = ask(&mut rig, &mut clients[1]);
    answer(&mut rig, asked);
    let expected = [port(&clients[2]), port(&clients[3])];
    for count in 1..=2 {
        let mut late = connect_from(3 + count as u8, &rig);
        accepted(&mut rig, BOUND as u64 + count);
        let asked = ask(&mut rig, &mut late);
        answer(&mut rig, asked);
        clients.push(late);
    }
    assert_eq!(closed(&rig), expected);
    assert_eq!(rig.hub.figures().connections, BOUND);
}

#[test]
fn who_is_owed_an_answer_is_not_closed() {
    let mut rig = short_rig();
    let mut clients: Vec<_> = (0..BOUND).map(|_| rig.connect()).collect();
    accepted(&mut rig, BOUND as u64);
    let tickets: Vec<_> = clients.iter_mut().map(|one| ask(&mut rig, one)).collect();
    let mut late = connect_from(2, &rig);
    late.write_all(&request(METADATA, 1, b"")).unwrap();
    // The listener rests in between: it is looked at again and again.
    let turns = rig.hub.figures().turns_total;
    rig.serve(&mut |_, _| panic!("it came before its time"), &mut |rig| {
        rig.hub.figures().turns_total >= turns + 3
    });
    assert_eq!(rig.hub.figures().connections, BOUND);
    assert_eq!(closed(&rig), [0; 0]);
    answer(&mut rig, tickets[2]);
    started(&mut rig);
    assert_eq!(closed(&rig), [port(&clients[2])]);
}

/// However long they were idle, and although the others take turns for the places that are left.
#[test]
fn what_comes_to_a_listener_of_brokers_stays() {
    let mut rig = short_rig();
    rig.brokers_port = Some(rig.hub.listen("127.0.0.1", 0, "BROKERS").unwrap());
    rig.hub.reserve_for(vec!["BROKERS".into()]);
    let mut brokers: Vec<_> = (0..BOUND - 1).map(|_| rig.connect_as_broker()).collect();
    accepted(&mut rig, brokers.len() as u64);
    let mut clients = Vec::new();
    for _ in 0..3 {
        let mut client = connect_from(2, &rig);
        let asked = ask(&mut rig, &mut client);
        answer(&mut rig, asked);
        clients.push(client);
    }
    assert_eq!(closed(&rig), [port(&clients[0]), port(&clients[1])]);
    for broker in &mut brokers {
        ask(&mut rig, broker);
    }
}

/// Where rights tell brokers from clients, it is of no use to say that one is a broker.
#[test]
fn who_only_says_to_be_a_broker_makes_room() {
    let mut rig = short_rig();
    rig.hub.know_brokers_by_rights();
    let mut clients: Vec<_> = (0..BOUND).map(|_| rig.connect()).collect();
    accepted(&mut rig, BOUND as u64);
    for (place, client) in clients.iter_mut().enumerate() {
        let key = if place < 2 { LEADER_AND_ISR } else { METADATA };
        client.write_all(&request(key, 1, b"")).unwrap();
        let ticket = started(&mut rig);
        assert!(rig.hub.says_it_is_broker(ticket.connection));
        if place == 0 {
            rig.hub.mark_broker(ticket.connection);
        }
        answer(&mut rig, ticket);
        next_moment();
    }
    let mut late = connect_from(2, &rig);
    accepted(&mut rig, BOUND as u64 + 1);
    ask(&mut rig, &mut late);
    assert_eq!(closed(&rig), [port(&clients[1])]);
}

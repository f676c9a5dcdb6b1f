//! Memory that is short where several threads serve: it is one, wherever connections are.

use super::moving::Several;
use super::*;
use crate::net::hub::{Reserved, Ticket};
use crate::net::table::hub_of;

const MIB: usize = 1 << 20;

fn several() -> Several {
    let limits = Limits {
        queued_bytes_max: 64 * MIB,
        frame_bytes_max: 32 * MIB,
        ..Limits::default()
    };
    let several = Several::of(limits, 2);
    several.hubs.serve_by(2, |_| Ok(())).unwrap();
    several
}

/// Clients that were answered once, so many at each of two hubs, by their hub.
fn clients(several: &mut Several, each: usize) -> [Vec<(TcpStream, u64)>; 2] {
    let mut found = [Vec::new(), Vec::new()];
    while found.iter().any(|clients| clients.len() < each) {
        let (client, id, _) = several.settled();
        let place = &mut found[hub_of(id) - 1];
        if place.len() < each {
            place.push((client, id));
        }
    }
    found
}

/// Sends the beginning of a frame of 30 MB, and holds the connection until told.
fn hold_begun(mut socket: TcpStream, bytes: usize) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        let mut frame = 30_000_000i32.to_be_bytes().to_vec();
        frame.resize(bytes, 0);
        let _ = socket.write_all(&frame);
        // The end comes from the hub.
        let _ = socket.read(&mut [0; 8]);
    })
}

/// All who hold memory are at one hub, and nobody waits there.
#[test]
fn who_stands_still_at_one_hub_is_closed_when_somebody_waits_at_another() {
    let mut several = several();
    let [holders, mut honest] = clients(&mut several, 2);
    let ids: Vec<_> = holders.iter().map(|(_, id)| *id).collect();
    // As much as there is without the lane, and not more.
    let holders = holders
        .into_iter()
        .map(|(socket, _)| hold_begun(socket, 13 * MIB));
    let holders: Vec<_> = holders.collect();
    several.until(|several| several.hubs.figures().queued_bytes > 25 * MIB);
    let sender = std::thread::spawn(move || {
        let body = vec![1; 28 * MIB];
        for (socket, _) in &mut honest {
            socket.write_all(&request(METADATA, 1, &body)).unwrap();
        }
        honest
    });
    let mut held = Vec::new();
    while held.len() < 2 {
        let (_, incoming) = several.incoming();
        several.skip(&incoming);
        held.push(incoming.ticket.connection);
    }
    several.until(|several| several.ended.len() == ids.len());
    assert!(
        several
            .ended
            .iter()
            .all(|one| ids.contains(&one.connection))
    );
    let reason = several.ended[0].reason.as_deref().unwrap_or_default();
    assert!(
        reason.starts_with("memory is short, and a frame of 30000000 bytes that holds"),
        "{reason}"
    );
    drop(sender.join().unwrap());
    holders.into_iter().for_each(|one| one.join().unwrap());
}

/// Answers that are made for connections of two hubs have one bound.
#[test]
fn large_answers_of_all_hubs_have_one_bound() {
    let mut several = several();
    let [mut first, mut second] = clients(&mut several, 1);
    let mut tickets = Vec::new();
    for (socket, _) in first.iter_mut().chain(&mut second) {
        super::moving::ask(socket);
        tickets.push(several.request().1);
    }
    let reserve = |several: &Several, ticket: Ticket, bytes: usize, token: u64| {
        several
            .hubs
            .of(ticket.connection)
            .reserve(ticket, bytes, token)
    };
    // The bound is a quarter of all.
    assert_eq!(reserve(&several, tickets[0], 15 * MIB, 1), Reserved::Now);
    (0..3).for_each(|number| drop(several.turn(number)));
    let first = hub_of(tickets[0].connection);
    assert!(!several.is_woken(first));
    assert_eq!(reserve(&several, tickets[1], 15 * MIB, 2), Reserved::Later);
    // It looks for those of its own that hold memory without need.
    assert!(several.is_woken(first));
    assert_eq!(several.hubs.figures().queued_bytes, 15 * MIB);
    several.hubs.of(tickets[0].connection).release(tickets[0]);
    several.until(|several| several.granted == [2]);
    assert_eq!(several.hubs.figures().queued_bytes, 15 * MIB);
    several.hubs.of(tickets[1].connection).release(tickets[1]);
    assert_eq!(several.hubs.figures().queued_bytes, 0);
}

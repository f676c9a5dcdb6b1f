//! Memory that is short.

use std::cell::RefCell;

use super::*;
use crate::net::hub::{Reserved, Ticket};
use crate::net::limits::SHARED_READ_BYTES;

/// Sends the beginning of a frame of 30 MB from a thread of its own, and holds the connection until told.
fn hold_begun(mut socket: TcpStream, bytes: usize) -> std::thread::JoinHandle<bool> {
    std::thread::spawn(move || {
        let mut frame = 30_000_000i32.to_be_bytes().to_vec();
        frame.resize(bytes, 0);
        let sent = socket.write_all(&frame).is_ok();
        // The end comes from the hub.
        sent && socket.read(&mut [0; 8]).is_ok()
    })
}

#[test]
fn who_stands_still_is_closed_when_others_wait_for_memory() {
    let mut rig = rig(Limits {
        queued_bytes_max: 64 << 20,
        frame_bytes_max: 32 << 20,
        ..Limits::default()
    });
    let holders: Vec<_> = (0..6)
        .map(|_| hold_begun(rig.connect(), 20_000_000))
        .collect();
    let mut longest = 0;
    rig.serve(&mut |_, _| {}, &mut |rig| {
        longest = longest.max(rig.hub.figures().queued_bytes);
        rig.ended.len() >= 4
    });
    assert!(longest <= (64 << 20) + SHARED_READ_BYTES, "{longest}");
    for ended in &rig.ended {
        let reason = ended.reason.as_deref().unwrap_or_default();
        assert!(
            reason.starts_with("memory is short, and a frame of 30000000 bytes that holds"),
            "{reason}"
        );
    }
    // One that goes on is not closed, and has all the memory it needs.
    let mut honest = rig.connect();
    let sender = std::thread::spawn(move || {
        honest
            .write_all(&request(METADATA, 1, &vec![1; 31_000_000]))
            .unwrap();
        honest
    });
    let mut met = false;
    let mut held = Vec::new();
    rig.serve(&mut |_, incoming| held.push(incoming), &mut |_| {
        met |= sender.is_finished();
        met
    });
    rig.hub.close();
    for holder in holders {
        holder.join().unwrap();
    }
    sender.join().unwrap();
}

#[test]
fn an_answer_that_no_size_can_say_closes_the_connection() {
    let file = file_with(b"short");
    let mut rig = rig(Limits::default());
    let mut client = rig.connect();
    client.write_all(&request(METADATA, 9, b"")).unwrap();
    let mut answer = |hub: &mut Hub<u32>, incoming: Incoming| {
        hub.reply(incoming.ticket, |_| (), vec![slice(&file, 0, 1 << 31)]);
    };
    rig.serve(&mut answer, &mut |rig| !rig.ended.is_empty());
    assert_eq!(
        rig.ended[0].reason.as_deref().unwrap(),
        "API key 3 version 1: an answer of 2147483652 bytes, at most 2147483647 can be sent"
    );
    assert_eq!(client.read(&mut [0; 8]).unwrap(), 0);
}

#[test]
fn answers_that_nobody_reads_make_room_for_others() {
    let mut rig = rig(Limits {
        queued_bytes_max: 64 << 20,
        ..Limits::default()
    });
    let mut greedy: Vec<_> = (0..9).map(|_| rig.connect()).collect();
    for client in &mut greedy {
        client.write_all(&request(METADATA, 1, b"L")).unwrap();
    }
    let body = vec![7; 12 << 20];
    let mut longest = 0;
    let mut answer = |hub: &mut Hub<u32>, incoming: Incoming| {
        let is_large = incoming.frame.last() == Some(&b'L');
        let write = |to: &mut Vec<u8>| to.extend_from_slice(if is_large { &body } else { b"" });
        hub.reply(incoming.ticket, write, vec![]);
    };
    rig.serve(&mut answer, &mut |rig| {
        rig.hub.figures().queued_bytes > 16 << 20
    });
    let mut small = rig.connect();
    small.write_all(&request(METADATA, 2, b"S")).unwrap();
    small.set_nonblocking(true).unwrap();
    rig.serve(&mut answer, &mut |rig| {
        longest = longest.max(rig.hub.figures().queued_bytes);
        matches!(small.read(&mut [0; 8]), Ok(8))
    });
    assert!(longest <= (16 + 12 + 1) << 20, "{longest}");
    let reason = rig.ended[0].reason.as_deref().unwrap();
    assert!(
        reason.starts_with("memory is short, and ")
            && reason.ends_with(" bytes of answers are not read"),
        "{reason}"
    );
}

/// A client that asked for something.
fn ask(rig: &Rig, number: i32) -> TcpStream {
    let mut client = rig.connect();
    client.write_all(&request(METADATA, number, b"")).unwrap();
    client
}

/// So many requests, as they start.
fn started(rig: &mut Rig, count: usize) -> Vec<Ticket> {
    let asked = RefCell::default();
    let mut take = |_: &mut Hub<u32>, incoming: Incoming| {
        let asked: &RefCell<Vec<_>> = &asked;
        asked.borrow_mut().push(incoming.ticket);
    };
    rig.serve(&mut take, &mut |_| asked.borrow().len() == count);
    asked.into_inner()
}

#[test]
fn large_answers_wait_for_memory_before_they_are_made() {
    let bound = 16 << 20;
    let mut rig = rig(Limits {
        queued_bytes_max: 4 * bound,
        ..Limits::default()
    });
    let mut clients: Vec<_> = (0..3).map(|number| ask(&rig, number)).collect();
    let asked = started(&mut rig, 3);
    let size = 12 << 20;
    assert_eq!(rig.hub.reserve(asked[0], size, 0), Reserved::Now);
    assert_eq!(rig.hub.figures().queued_bytes, size);
    assert_eq!(rig.hub.reserve(asked[1], size, 1), Reserved::Later);
    assert_eq!(rig.hub.reserve(asked[2], size, 2), Reserved::Later);
    // The answer is made and not read: it is charged in place of what was reserved for it.
    let body = vec![7; size];
    rig.hub
        .reply(asked[0], |to| to.extend_from_slice(&body), vec![]);
    rig.hub.release(asked[0]);
    assert!(rig.hub.figures().queued_bytes >= size);
    // The next goes on, since none is being made and unsent answers are below the bound.
    let mut nobody = |_: &mut Hub<u32>, _: Incoming| {};
    rig.serve(&mut nobody, &mut |rig| !rig.reserved.is_empty());
    assert_eq!(rig.reserved, [(1, true)]);
    // A connection that ends does not wait on.
    drop(clients.pop());
    rig.serve(&mut nobody, &mut |rig| rig.reserved.len() == 2);
    assert_eq!(rig.reserved[1], (2, false));
    assert_eq!(rig.hub.reserve(asked[2], size, 3), Reserved::Never);
    assert!(rig.ended.iter().all(|one| one.reason.is_none()));
}

#[test]
fn who_does_not_read_is_closed_for_an_answer_that_is_to_be_made() {
    let bound = 16 << 20;
    let mut rig = rig(Limits {
        queued_bytes_max: 4 * bound,
        ..Limits::default()
    });
    let clients: Vec<_> = (0..3).map(|number| ask(&rig, number)).collect();
    let asked = started(&mut rig, 3);
    let body = vec![7; 12 << 20];
    for &ticket in &asked[..2] {
        rig.hub
            .reply(ticket, |to| to.extend_from_slice(&body), vec![]);
    }
    let mut nobody = |_: &mut Hub<u32>, _: Incoming| {};
    rig.serve(&mut nobody, &mut |rig| {
        rig.hub.figures().queued_bytes > bound
    });
    assert_eq!(rig.hub.reserve(asked[2], 1 << 20, 5), Reserved::Later);
    rig.serve(&mut nobody, &mut |rig| !rig.reserved.is_empty());
    assert_eq!(rig.reserved, [(5, true)]);
    assert_eq!(rig.ended.len(), 1, "as few as make room");
    let reason = rig.ended[0].reason.as_deref().unwrap();
    assert!(
        reason.ends_with("bytes of answers are not read"),
        "{reason}"
    );
    drop(clients);
}

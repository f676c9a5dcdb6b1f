//! Bytes that a transport took from its socket: epoll says nothing of them, and they are served all the same.

use super::*;
use crate::net::transport::Transport;

fn holding() -> Rig {
    let mut rig = rig(Limits::default());
    rig.hub.wrap("PLAINTEXT", Transport::holding);
    rig
}

/// Answers with the frame's last byte until `count` requests are answered.
fn serve(rig: &mut Rig, count: usize) {
    let served = AtomicUsize::new(0);
    rig.serve(
        &mut |hub, incoming| {
            let last = *incoming.frame.last().unwrap();
            hub.reply(incoming.ticket, |to| to.push(last), vec![]);
            served.fetch_add(1, Ordering::Relaxed);
        },
        &mut |_| served.load(Ordering::Relaxed) == count,
    );
    rig.turn(0, &mut |_, _| {});
}

#[test]
fn what_is_held_is_served_without_another_word_of_the_client() {
    let mut rig = holding();
    let mut client = rig.connect();
    let bodies: Vec<Vec<u8>> = [1usize, 3, 70_000, 1, 300_000, 12]
        .iter()
        .zip(1..)
        .map(|(length, last)| [pattern(length - 1), vec![last]].concat())
        .collect();
    let frames: Vec<u8> = bodies
        .iter()
        .flat_map(|body| request(METADATA, 5, body))
        .collect();
    let mut sender = client.try_clone().unwrap();
    let sent = std::thread::spawn(move || sender.write_all(&frames));
    serve(&mut rig, bodies.len());
    sent.join().unwrap().unwrap();
    for last in 1..=6 {
        let mut answer = [0; 9];
        client.read_exact(&mut answer).unwrap();
        assert_eq!(answer[8], last);
    }
}

#[test]
fn what_is_held_waits_as_long_as_its_connection_may_not_be_served() {
    let mut rig = holding();
    let mut client = rig.connect();
    for body in [1, 2] {
        client.write_all(&request(METADATA, 5, &[body])).unwrap();
    }
    let first = Mutex::new(None);
    let count = AtomicUsize::new(0);
    let mut keep = |_: &mut Hub<u32>, incoming| {
        count.fetch_add(1, Ordering::Relaxed);
        *first.lock() = Some(incoming);
    };
    rig.serve(&mut keep, &mut |_| count.load(Ordering::Relaxed) == 1);
    for _ in 0..20 {
        rig.turn(1, &mut keep);
    }
    assert_eq!(count.load(Ordering::Relaxed), 1, "one after the other");
    let incoming = first.lock().take().unwrap();
    rig.hub.reply(incoming.ticket, |to| to.push(1), vec![]);
    serve(&mut rig, 1);
}

#[test]
fn the_end_of_a_client_comes_after_what_is_held() {
    let mut rig = holding();
    let mut client = rig.connect();
    client.write_all(&request(METADATA, 5, &[1])).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    serve(&mut rig, 1);
    rig.serve(&mut |_, _| panic!("nothing more"), &mut |rig| {
        !rig.ended.is_empty()
    });
    let mut all = Vec::new();
    client.read_to_end(&mut all).unwrap();
    assert_eq!(all.len(), 9);
}

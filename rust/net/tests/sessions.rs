//! The gate: who may not speak yet is not served.

use super::*;
use crate::net::session::TOKEN;

const LONG_MS: u64 = 60_000;

/// A hub whose clients have to say who they are.
fn shut(greeting_ms: u64) -> Rig {
    let mut rig = rig(Limits::default());
    rig.hub.greet("PLAINTEXT", Some(greeting_ms));
    rig
}

/// Serves until the connection has ended. Returns the keys that were handed out, and the reason.
fn until_end(rig: &mut Rig, handle: &mut dyn FnMut(&mut Hub<u32>, Incoming)) -> (Vec<i16>, String) {
    let mut keys = Vec::new();
    rig.serve(
        &mut |hub, incoming| {
            keys.push(incoming.ticket.api_key);
            handle(hub, incoming);
        },
        &mut |rig| !rig.ended.is_empty(),
    );
    (keys, rig.ended.remove(0).reason.unwrap_or_default())
}

fn answer(hub: &mut Hub<u32>, incoming: Incoming) {
    hub.reply(incoming.ticket, |to| to.push(1), vec![]);
}

#[test]
fn nothing_but_a_greeting_is_handed_out() {
    for key in [PRODUCE, METADATA, LEADER_AND_ISR] {
        let mut rig = shut(LONG_MS);
        let mut client = rig.connect();
        client.write_all(&request(key, 1, b"")).unwrap();
        let (keys, reason) = until_end(&mut rig, &mut answer);
        assert!(keys.is_empty());
        assert_eq!(
            reason,
            format!("API key {key} before it is known who the client is")
        );
    }
}

#[test]
fn what_is_pipelined_behind_a_greeting_is_refused_after_its_answer() {
    let mut rig = shut(LONG_MS);
    let mut client = rig.connect();
    for key in [API_VERSIONS, SASL_HANDSHAKE, PRODUCE] {
        client.write_all(&request(key, key.into(), b"")).unwrap();
    }
    let (keys, reason) = until_end(&mut rig, &mut answer);
    assert_eq!(keys, [API_VERSIONS, SASL_HANDSHAKE]);
    assert!(reason.starts_with("API key 0 before"), "{reason}");
    // Both answers leave, and nothing else.
    let mut all = Vec::new();
    client.read_to_end(&mut all).unwrap();
    assert_eq!(all.len(), 2 * (4 + 4 + 1));
}

#[test]
fn who_is_known_may_speak_and_what_waits_behind_the_greeting_too() {
    let mut rig = shut(LONG_MS);
    let mut client = rig.connect();
    for key in [SASL_HANDSHAKE, PRODUCE, METADATA] {
        client.write_all(&request(key, key.into(), b"")).unwrap();
    }
    let mut greeting = None;
    rig.serve(&mut |_, incoming| greeting = Some(incoming), &mut |_| true);
    let mut served = Vec::new();
    for _ in 0..3 {
        rig.turn(50, &mut |_, incoming| {
            if incoming.ticket.api_key == SASL_HANDSHAKE {
                greeting = Some(incoming);
            } else {
                served.push(incoming.ticket.api_key);
            }
        });
    }
    assert!(served.is_empty(), "they wait for the greeting's answer");
    let greeting = greeting.unwrap();
    rig.hub.let_speak(greeting.ticket.connection, None);
    answer(&mut rig.hub, greeting);
    let count = AtomicUsize::new(0);
    rig.serve(
        &mut |hub, incoming| {
            served.push(incoming.ticket.api_key);
            count.fetch_add(1, Ordering::Relaxed);
            answer(hub, incoming);
        },
        &mut |_| count.load(Ordering::Relaxed) == 2,
    );
    assert_eq!(served, [PRODUCE, METADATA]);
    assert!(rig.ended.is_empty());
}

#[test]
fn a_greeting_is_no_large_frame() {
    let mut rig = shut(LONG_MS);
    let mut client = rig.connect();
    client.write_all(&(600_000i32).to_be_bytes()).unwrap();
    let (keys, reason) = until_end(&mut rig, &mut answer);
    assert!(keys.is_empty());
    assert!(reason.contains("at most 524288"), "{reason}");
}

#[test]
fn who_says_nothing_or_too_little_ends_in_time() {
    for frame in [request(SASL_HANDSHAKE, 1, b""), vec![0, 0], vec![]] {
        let mut rig = shut(50);
        let mut client = rig.connect();
        client.write_all(&frame).unwrap();
        // A greeting that is never answered keeps nobody either.
        let mut kept = Vec::new();
        let (_, reason) = until_end(&mut rig, &mut |_, incoming| kept.push(incoming));
        assert_eq!(reason, "the client did not say in time who it is");
    }
}

#[test]
fn who_is_known_in_time_stays() {
    let mut rig = shut(100);
    let _client = rig.connect();
    let mut silent = rig.connect();
    silent.write_all(&request(SASL_HANDSHAKE, 1, b"")).unwrap();
    let mut known = None;
    rig.serve(
        &mut |hub, incoming| {
            let connection = incoming.ticket.connection;
            hub.let_speak(connection, None);
            known = Some(connection);
            answer(hub, incoming);
        },
        &mut |rig| !rig.ended.is_empty(),
    );
    assert_eq!(rig.ended.len(), 1);
    assert_ne!(Some(rig.ended[0].connection), known);
    assert_eq!(rig.hub.figures().connections, 1);
}

#[test]
fn the_end_of_a_session_leaves_what_waits_without_an_answer() {
    let mut rig = rig(Limits::default());
    let mut client = rig.connect();
    client.write_all(&request(METADATA, 1, b"")).unwrap();
    let waiting = Mutex::new(None);
    rig.serve(
        &mut |_, incoming| *waiting.lock() = Some(incoming),
        &mut |_| waiting.lock().is_some(),
    );
    let incoming = waiting.into_inner().unwrap();
    let ticket = incoming.ticket;
    rig.hub.end_session(ticket.connection, "it is over".into());
    assert!(!rig.hub.is_waiting(ticket));
    answer(&mut rig.hub, incoming);
    let (_, reason) = until_end(&mut rig, &mut answer);
    assert_eq!(reason, "it is over");
    let mut all = Vec::new();
    client.read_to_end(&mut all).unwrap();
    assert!(all.is_empty());
}

#[test]
fn tokens_have_no_headers_and_neither_have_their_answers() {
    let mut rig = shut(LONG_MS);
    let mut client = rig.connect();
    client.write_all(&request(SASL_HANDSHAKE, 1, b"")).unwrap();
    // The first bytes of the second are a Produce's key; the third is empty.
    for token in [&b"first"[..], &[0, 0, 7], &[]] {
        client
            .write_all(&(token.len() as u32).to_be_bytes())
            .unwrap();
        client.write_all(token).unwrap();
    }
    client.write_all(&request(METADATA, 9, b"")).unwrap();
    let handed = Mutex::new(Vec::new());
    let mut expected = Vec::new();
    for token in [None, Some(&b"first"[..]), Some(&[0, 0, 7]), Some(&[])] {
        rig.serve(&mut |_, incoming| handed.lock().push(incoming), &mut |_| {
            !handed.lock().is_empty()
        });
        // Nothing starts behind it, whatever it begins with.
        for _ in 0..3 {
            rig.turn(10, &mut |_, incoming| handed.lock().push(incoming));
        }
        let incoming = handed.lock().pop().unwrap();
        assert!(handed.lock().is_empty());
        let connection = incoming.ticket.connection;
        match token {
            None => rig.hub.take_tokens(connection),
            Some(token) => {
                let ticket = incoming.ticket;
                assert_eq!(
                    (ticket.api_key, ticket.api_version),
                    (SASL_AUTHENTICATE, TOKEN)
                );
                assert_eq!(&incoming.frame[incoming.header.body_start..], token);
                if token.is_empty() {
                    rig.hub.let_speak(connection, None);
                }
            }
        }
        expected.extend(match token {
            None => vec![0, 0, 0, 5, 0, 0, 0, 1, 1],
            Some(_) => vec![0, 0, 0, 1, 1],
        });
        answer(&mut rig.hub, incoming);
    }
    let is_served = AtomicUsize::new(0);
    rig.serve(
        &mut |hub, incoming| {
            assert_eq!(incoming.ticket.api_key, METADATA);
            answer(hub, incoming);
            is_served.fetch_add(1, Ordering::Relaxed);
        },
        &mut |_| is_served.load(Ordering::Relaxed) == 1,
    );
    drop(rig);
    let mut all = Vec::new();
    client.read_to_end(&mut all).unwrap();
    expected.extend([0, 0, 0, 5, 0, 0, 0, 9, 1]);
    assert_eq!(all, expected);
}

#[test]
fn who_was_known_says_it_anew_after_its_time() {
    let mut rig = shut(LONG_MS);
    let mut client = rig.connect();
    client
        .write_all(&request(SASL_AUTHENTICATE, 1, b""))
        .unwrap();
    let known = AtomicUsize::new(0);
    let mut connection = 0;
    rig.serve(
        &mut |hub, incoming| {
            connection = incoming.ticket.connection;
            hub.let_speak(connection, Some(0));
            answer(hub, incoming);
            known.fetch_add(1, Ordering::Relaxed);
        },
        &mut |_| known.load(Ordering::Relaxed) == 1,
    );
    client
        .write_all(&request(SASL_AUTHENTICATE, 2, b""))
        .unwrap();
    rig.serve(
        &mut |hub, incoming| {
            answer(hub, incoming);
            known.fetch_add(1, Ordering::Relaxed);
        },
        &mut |_| known.load(Ordering::Relaxed) == 2,
    );
    client.write_all(&request(METADATA, 3, b"")).unwrap();
    let (keys, reason) = until_end(&mut rig, &mut answer);
    assert!(keys.is_empty());
    assert_eq!(reason, "API key 3 after the end of the session");
}

#[test]
fn who_is_refused_gets_its_answer_first() {
    let mut rig = shut(LONG_MS);
    let mut client = rig.connect();
    for number in [1, 2] {
        client
            .write_all(&request(SASL_AUTHENTICATE, number, b""))
            .unwrap();
    }
    let (keys, reason) = until_end(&mut rig, &mut |hub, incoming| {
        let connection = incoming.ticket.connection;
        answer(hub, incoming);
        hub.refuse(connection, "nobody knows it".into());
        hub.refuse(connection, "once is enough".into());
    });
    assert_eq!(keys, [SASL_AUTHENTICATE]);
    assert_eq!(reason, "nobody knows it");
    let mut all = Vec::new();
    client.read_to_end(&mut all).unwrap();
    assert_eq!(all, [0, 0, 0, 5, 0, 0, 0, 1, 1]);
}

//! Waiting in the loop's place.

use std::os::fd::AsFd;

use parking_lot::Mutex;

use super::*;
use crate::io::Wake;
use crate::net::hub::wait;

const LONG: Duration = Duration::from_secs(20);

#[test]
fn what_only_sends_needs_no_loop() {
    let mut rig = rig(Limits::default());
    let mut client = rig.connect();
    client.write_all(&request(METADATA, 9, b"")).unwrap();
    let body = pattern(30_000_000);
    rig.serve(
        &mut |hub, incoming| {
            hub.reply(incoming.ticket, |to| to.extend_from_slice(&body), vec![]);
        },
        &mut |rig| rig.hub.figures().queued_bytes > body.len() / 2,
    );
    let got = std::thread::spawn(move || {
        let mut all = vec![0; 8 + 30_000_000];
        client.read_exact(&mut all).unwrap();
        drop(client);
        all
    });
    let epoll = Arc::clone(rig.hub.fd());
    let hub = Mutex::new(rig.hub);
    // The first that the loop hears of is that the client left, with everything.
    let event = wait(&hub, epoll.as_fd(), LONG).unwrap();
    assert!(matches!(event, Some(Event::Disconnected(_))));
    assert!(got.join().unwrap()[8..] == body);
}

#[test]
fn the_time_ends_it() {
    let rig = rig(Limits::default());
    let epoll = Arc::clone(rig.hub.fd());
    let hub = Mutex::new(rig.hub);
    let start = Instant::now();
    assert!(
        wait(&hub, epoll.as_fd(), Duration::from_millis(30))
            .unwrap()
            .is_none()
    );
    assert!(start.elapsed() >= Duration::from_millis(30));
}

#[test]
fn what_is_beside_the_hub_has_its_turn_although_the_hub_never_rests() {
    let mut rig = rig(Limits::default());
    let beside = Wake::new().unwrap();
    rig.hub.watch_beside(Some(beside.fd())).unwrap();
    let (epoll, completions) = (Arc::clone(rig.hub.fd()), Arc::clone(rig.hub.completions()));
    let hub = Mutex::new(rig.hub);
    let turn = || {
        completions.push(1, 0);
        let event = wait(&hub, epoll.as_fd(), LONG).unwrap();
        let came = event.is_some();
        if came {
            while hub.lock().next_event().unwrap().is_some() {}
        }
        came
    };
    assert_eq!([turn(), turn()], [true, true]);
    beside.signal();
    let turns = [turn(), turn(), turn()];
    assert!(turns.contains(&true) && turns.contains(&false), "{turns:?}");
    beside.clear();
    assert_eq!([turn(), turn(), turn()][1..], [true, true]);
    beside.signal();
    hub.lock().watch_beside(None).unwrap();
    assert_eq!([turn(), turn(), turn()], [true; 3]);
}

//! A hub whose thread failed in the middle of something: its connections are closed, and it begins anew.
//!
//! A connection that the thread had taken out of the table is lost with it. The table knows where it came from, and the
//! hub what all its connections are charged, so that nothing is counted for ever.

use super::*;

impl<T> Hub<T> {
    /// Closes all connections, for a reason, and forgets what was under way.
    pub(super) fn begin_anew(&mut self, reason: &str) {
        self.visit = None;
        self.serving = false;
        if let Some(meter) = &mut self.meter {
            meter.handling = None;
        }
        self.end_turn();
        for id in self.connections.ids() {
            if let Some(connection) = self.connections.take(id) {
                self.end(connection, Some(reason.to_owned()));
            }
        }
        for (id, origin) in self.connections.taken_out() {
            self.is_gone(id, origin, None, Some(reason.to_owned()));
        }
        let charged = mem::take(&mut self.charged);
        self.shared.budget.answers_changed(charged, 0);
        self.ready.clear();
        self.dirty.clear();
        self.unfinished.clear();
        self.resumed.clear();
        self.deadlines.clear();
        self.mutes.clear();
        // Memory that they held, or were to have first, is others' now.
        self.feed();
    }

    /// Has the thread that serves the hub fail, for tests.
    pub fn fail(&mut self, reason: String) {
        self.events.push_back(Event::Failed(reason));
        self.wake.signal();
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use super::*;
    use crate::net::admission::Api;
    use crate::wire::headers::request_frame;

    const KEY: i16 = 3;

    /// Turns until there is a request.
    fn request(hub: &mut Hub<()>) -> Incoming {
        loop {
            while let Some(event) = hub.next_event().unwrap() {
                if let Event::Request(incoming) = event {
                    return incoming;
                }
            }
        }
    }

    fn client(port: u16) -> TcpStream {
        let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let frame = request_frame(KEY, 0, false, 7, None, b"").unwrap();
        client.write_all(&frame).unwrap();
        client
    }

    #[test]
    fn nothing_is_counted_of_a_connection_that_is_lost() {
        let apis = HashMap::from([(KEY, Api::plain(0, 9))]);
        let connections = ConnectionLimits {
            per_ip_max: 2,
            ..ConnectionLimits::default()
        };
        let mut hub = Hub::<()>::alone(Limits::default(), connections, &apis).unwrap();
        let port = hub.listen("127.0.0.1", 0, "PLAINTEXT").unwrap();
        let mut clients = Vec::new();
        let mut ids = Vec::new();
        for _ in 0..2 {
            clients.push(client(port));
            let ticket = request(&mut hub).ticket;
            // More than the socket takes.
            hub.reply(ticket, |to| to.resize(16 << 20, 0), Vec::new());
            while hub.next_event().unwrap().is_some() {}
            ids.push(ticket.connection);
        }
        assert!(hub.figures().queued_bytes > 0);
        hub.in_turn = true;
        drop(hub.connections.take(ids[0]));
        hub.begin_anew("a reason");
        let figures = hub.figures();
        assert_eq!((figures.connections, figures.queued_bytes), (0, 0));
        assert_eq!(hub.listener_connections(), [("PLAINTEXT".to_owned(), 0)]);
        let mut told = Vec::new();
        while let Some(event) = hub.next_event().unwrap() {
            if let Event::Disconnected(gone) = event {
                assert_eq!(gone.reason.as_deref(), Some("a reason"));
                told.push(gone.connection);
            }
        }
        told.sort_unstable();
        ids.sort_unstable();
        assert_eq!(told, ids);
        for mut client in clients {
            // With what was sent before.
            let mut rest = Vec::new();
            let _ = client.read_to_end(&mut rest);
        }
        // Others are served, as many of one address as before.
        let mut others = Vec::new();
        for _ in 0..2 {
            others.push(client(port));
            let ticket = request(&mut hub).ticket;
            hub.reply(ticket, |_| {}, Vec::new());
        }
    }
}

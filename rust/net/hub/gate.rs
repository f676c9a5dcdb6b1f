//! The gate: which frames become requests that are handed out, and in which slots. A frame that may not start yet
//! waits; others are answered or refused here, before anybody handles them.

use super::*;
use crate::net::session::TOKEN;
use crate::net::strangers;

/// Stands for the header of a token, which has none.
const TOKEN_HEADER: RequestHeader = RequestHeader {
    api_key: keys::SASL_AUTHENTICATE,
    api_version: TOKEN,
    correlation_id: 0,
    client_id: None,
    is_flexible: false,
    body_start: 0,
};

impl<T> Hub<T> {
    /// Cuts the next frame of the visit and starts its request; ends the visit if there is none that may start.
    pub(super) fn next_frame(&mut self, mut visit: Visit) -> Option<Incoming> {
        let mut connection = self.connections.take(visit.connection)?;
        let mut fresh = Fresh {
            bytes: &self.brought[..visit.end],
            start: &mut visit.start,
        };
        let mut is_deferred = false;
        while connection.may_serve(&self.shared.limits)
            && self.frames_left > 0
            && visit.frames < VISIT_FRAMES_MAX
        {
            let Some((api_key, length)) = self.startable(&mut connection, &fresh) else {
                break;
            };
            if self.waits_for_answers(&connection, api_key, length) {
                is_deferred = true;
                break;
            }
            let frame = match connection.input.take(length, &mut fresh, &self.shared.pool) {
                Ok(frame) => frame,
                Err(error) => {
                    connection.refuse(error.to_string());
                    break;
                }
            };
            if frame.account() == Account::Lane {
                self.short.lane = None;
                self.shared.budget.leave_lane(self.number);
            }
            visit.frames += 1;
            self.frames_left -= 1;
            match self.look_at(&connection, frame) {
                Admission::Start(header, frame) => {
                    return Some(self.start(visit, connection, header, frame));
                }
                Admission::Answer {
                    correlation_id,
                    body,
                } => connection.answer(correlation_id, &body),
                Admission::Refuse { reason, client_id } => {
                    if let Some(client_id) = client_id {
                        connection.client_id = Some(client_id.into());
                    }
                    connection.refuse(reason);
                }
            }
        }
        if connection.state == State::Open {
            let (bytes_max, now_ms) = (
                connection.session.frame_bytes_max(&self.shared.limits),
                self.now_ms,
            );
            let kept = connection
                .input
                .keep(&mut fresh, bytes_max, &self.shared.pool, now_ms);
            if let Err(error) = kept {
                connection.refuse(error.to_string());
            }
        }
        if connection.state != State::Open {
            connection.input = Default::default();
        }
        if is_deferred {
            self.defer(&mut connection);
        }
        self.finish(connection);
        None
    }

    /// The key and the length of the next frame, if it may start now. A frame that the connection may not send is
    /// refused.
    fn startable(&self, connection: &mut Connection, fresh: &Fresh<'_>) -> Option<(i16, usize)> {
        let bytes_max = connection.session.frame_bytes_max(&self.shared.limits);
        match connection.input.peek(fresh, bytes_max) {
            Next::Nothing => None,
            Next::Bad(length) => {
                let reason = format!(
                    "a frame of {length} bytes announced, at most {bytes_max} are allowed{}",
                    strangers::seems(length)
                );
                connection.refuse(reason);
                None
            }
            Next::Frame { api_key, length } => {
                if !connection.slots.may_start(api_key == PRODUCE) {
                    return None;
                }
                if let Some(reason) = connection.session.refusal(api_key, self.now_ms) {
                    connection.refuse(reason);
                    return None;
                }
                Some((api_key, length))
            }
        }
    }

    /// Decides about a frame: a token is handed out as it is.
    fn look_at(&self, connection: &Connection, frame: Buffer) -> Admission {
        match connection.session.sends_tokens() {
            true => Admission::Start(TOKEN_HEADER, frame),
            false => self.shared.supported.admit(frame),
        }
    }

    /// Starts a request. The visit goes on behind it.
    fn start(
        &mut self,
        visit: Visit,
        mut connection: Box<Connection>,
        header: RequestHeader,
        frame: Buffer,
    ) -> Incoming {
        let api = self.shared.supported.api(header.api_key);
        connection.is_broker |= api.is_some_and(|api| api.is_between_brokers)
            && self.believes(&connection)
            && !self.acceptor.lock().brokers_have_rights;
        let mut incoming = connection.start(header, frame);
        if let Some(meter) = &mut self.meter {
            let (key, sequence) = (incoming.ticket.api_key, incoming.ticket.sequence);
            let started_us = meter.starts((connection.id, sequence));
            incoming.ticket.started_us = started_us;
            let arrived_us = match connection.ready_us {
                0 => started_us,
                ready_us => ready_us,
            };
            connection
                .times
                .start(sequence, key, arrived_us, started_us);
        }
        self.connections.put(connection);
        self.visit = Some(visit);
        incoming
    }
}

impl Connection {
    /// Takes a slot for a request.
    pub(super) fn start(&mut self, header: RequestHeader, frame: Buffer) -> Incoming {
        let id = header.client_id.clone().map(|range| &frame[range]);
        if id != self.client_id.as_deref().map(str::as_bytes) {
            self.client_id = client_id(&header, &frame).map(Arc::from);
        }
        let sequence = self.slots.start(header.api_key == PRODUCE, frame.len());
        Incoming {
            ticket: Ticket {
                connection: self.id,
                sequence,
                api_key: header.api_key,
                api_version: header.api_version,
                is_flexible: header.is_flexible,
                correlation_id: header.correlation_id,
                started_us: 0,
            },
            header,
            frame,
            client_id: self.client_id.clone(),
            origin: Arc::clone(&self.origin),
        }
    }

    /// An answer of the hub's own, with header version 0.
    pub(super) fn answer(&mut self, correlation_id: i32, body: &[u8]) {
        let mut bytes = Vec::with_capacity(8 + body.len());
        bytes.extend_from_slice(&(4 + body.len() as u32).to_be_bytes());
        bytes.extend_from_slice(&correlation_id.to_be_bytes());
        bytes.extend_from_slice(body);
        self.slot_bytes += bytes.len();
        self.slots.push(Value::Answer(Reply {
            bytes,
            rest: Vec::new(),
        }));
    }

    /// Closes the connection once all earlier answers have left.
    pub(super) fn refuse(&mut self, reason: String) {
        self.slots.push(Value::Close(Some(reason)));
        self.state = State::Closing;
    }
}

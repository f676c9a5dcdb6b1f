//! Where the time of a connection's requests goes, cut as Kafka's metrics cut it (`RequestChannel.Request.updateRequestMetrics`):
//!
//! * request queue: from the look at all sockets that found its connection readable to its start. Others were received and handled before it.
//!   What waited behind an unanswered request of its own connection is not counted: Kafka would not have read it.
//! * local: the handler's call. What a small frame's reception takes counts here.
//! * remote: from the handler's return to the answer, if the handler did not give it: a flush, replication, `fetch.max.wait.ms`, a task.
//! * response queue: from the answer to the first attempt to send it. Earlier answers, the others of its turn, or a full socket were before it.
//! * response send: from that attempt until its last byte is in the socket's buffer.
//!
//! The parts add up to the total. No clock here: the hub brings the readings.

use std::collections::VecDeque;

/// One request's, in microseconds of the meter's clock; 0 for what did not happen yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamps {
    pub arrived_us: u64,
    pub started_us: u64,
    pub handled_us: u64,
    pub answered_us: u64,
    pub sending_us: u64,
    pub sent_us: u64,
}

/// The parts and their sum, in the order of `Meter`'s tables.
pub const PARTS: usize = 6;

impl Stamps {
    /// Total, request queue, local, remote, response queue, response send.
    pub fn parts_us(&self) -> [u64; PARTS] {
        let handled_us = self.handled_us.max(self.started_us).min(self.answered_us);
        [
            self.sent_us.saturating_sub(self.arrived_us),
            self.started_us.saturating_sub(self.arrived_us),
            handled_us.saturating_sub(self.started_us),
            self.answered_us.saturating_sub(handled_us),
            self.sending_us.saturating_sub(self.answered_us),
            self.sent_us.saturating_sub(self.sending_us),
        ]
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Timed {
    sequence: u64,
    pub api_key: i16,
    pub stamps: Stamps,
    /// Where its answer ends in all that the connection is ever sent.
    end: u64,
}

/// Requests from their start until their answers are sent, in order. Empty where nobody measures.
#[derive(Default)]
pub struct Times {
    requests: VecDeque<Timed>,
    /// How many of them, from the front, have left their slots; and how many of those were tried to be sent.
    left: usize,
    tried: usize,
}

impl Times {
    /// Whether `sent` has something to tell.
    pub fn has_sent(&self, position: u64) -> bool {
        self.tried > 0
            && self
                .requests
                .front()
                .is_some_and(|request| request.end <= position)
    }

    pub fn start(&mut self, sequence: u64, api_key: i16, arrived_us: u64, started_us: u64) {
        let stamps = Stamps {
            arrived_us: arrived_us.min(started_us),
            started_us,
            ..Stamps::default()
        };
        self.requests.push_back(Timed {
            sequence,
            api_key,
            stamps,
            end: 0,
        });
    }

    /// The handler returned.
    pub fn handled(&mut self, sequence: u64, now_us: u64) {
        if let Some(request) = self.find(sequence) {
            request.stamps.handled_us = now_us;
        }
    }

    /// The answer was given; by the handler, if that did not return yet.
    pub fn answered(&mut self, sequence: u64, now_us: u64) {
        if let Some(request) = self.find(sequence) {
            request.stamps.answered_us = now_us;
            if request.stamps.handled_us == 0 {
                request.stamps.handled_us = now_us;
            }
        }
    }

    /// The answer left its slot, and what is sent ends with it at `end`.
    pub fn left(&mut self, sequence: u64, end: u64) {
        if let Some(request) = self.requests.get_mut(self.left)
            && request.sequence == sequence
        {
            request.end = end;
            self.left += 1;
        }
    }

    /// What left its slot is about to be sent.
    pub fn sending(&mut self, now_us: u64) {
        for request in self.requests.range_mut(self.tried..self.left) {
            request.stamps.sending_us = now_us.max(request.stamps.answered_us);
        }
        self.tried = self.left;
    }

    /// The next request whose answer is among the bytes before `position`, all of which are sent.
    pub fn sent(&mut self, position: u64, now_us: u64) -> Option<Timed> {
        if !self.has_sent(position) {
            return None;
        }
        let mut request = self.requests.pop_front()?;
        request.stamps.sent_us = now_us;
        self.tried -= 1;
        self.left -= 1;
        Some(request)
    }

    fn find(&mut self, sequence: u64) -> Option<&mut Timed> {
        let search = |request: &Timed| request.sequence;
        let at = self.requests.binary_search_by_key(&sequence, search).ok()?;
        self.requests.get_mut(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Total, request queue, local, remote, response queue, response send of all that is sent up to `position`.
    fn sent(times: &mut Times, position: u64, now_us: u64) -> Vec<(i16, [u64; PARTS])> {
        std::iter::from_fn(|| times.sent(position, now_us))
            .map(|request| (request.api_key, request.stamps.parts_us()))
            .collect()
    }

    #[test]
    fn what_the_handler_answers_has_no_remote_part() {
        let mut times = Times::default();
        times.start(7, 3, 100, 110);
        times.left(7, 50);
        times.answered(7, 130);
        times.sending(135);
        assert_eq!(sent(&mut times, 49, 138), []);
        assert_eq!(sent(&mut times, 50, 140), [(3, [40, 10, 20, 0, 5, 5])]);
        assert!(!times.has_sent(u64::MAX));
    }

    #[test]
    fn what_is_answered_later_was_remote_from_the_handlers_return() {
        let mut times = Times::default();
        times.start(0, 1, 100, 100);
        times.handled(0, 107);
        times.sending(108);
        assert_eq!(sent(&mut times, 0, 109), [], "it is not answered");
        times.answered(0, 600);
        times.left(0, 9);
        times.sending(600);
        assert_eq!(sent(&mut times, 9, 601), [(1, [501, 0, 7, 493, 0, 1])]);
    }

    #[test]
    fn answers_wait_for_those_before_them_and_for_the_socket() {
        let mut times = Times::default();
        for sequence in [0, 1, 3] {
            times.start(sequence, 0, 10, 10);
            times.handled(sequence, 11);
        }
        times.answered(1, 20);
        times.sending(20);
        // What the hub answers by itself (2) is not measured.
        times.answered(0, 50);
        for (sequence, end) in [(0, 100), (1, 200), (2, 230)] {
            times.left(sequence, end);
        }
        times.sending(50);
        assert_eq!(sent(&mut times, 150, 51), [(0, [41, 0, 1, 39, 0, 1])]);
        // The socket was full; another attempt is not the first.
        times.sending(80);
        times.answered(3, 85);
        times.left(3, 300);
        assert_eq!(sent(&mut times, 300, 90), [(0, [80, 0, 1, 9, 30, 40])]);
        times.sending(95);
        assert_eq!(sent(&mut times, 300, 96), [(0, [86, 0, 1, 74, 10, 1])]);
    }
}

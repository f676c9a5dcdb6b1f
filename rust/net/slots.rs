//! The numbered reply slots of one connection: answers leave in the order of the requests, whatever order they are given in.
//!
//! Kafka's clients match answers by order, and Kafka's broker keeps the order by muting a connection while one of its requests is being
//! handled. Here a request takes a slot when it starts, and three values may fill it: an answer, nothing (acks=0), or "close the
//! connection", so that answers given before a failure still leave. Which request may start while others wait is a decision (docs/internals/network.md):
//! only a Produce may pass waiting Produces, and only if the appends of all of them are done; everything else waits until all earlier
//! requests are answered. That lets pipelined acks=all requests share one flush or one round of replication, and keeps log order equal to
//! request order.
//!
//! No I/O here: everything that decides order is in this file.

use std::collections::VecDeque;

/// What a slot may hold in the end.
#[derive(Debug, PartialEq, Eq)]
pub enum Value<A> {
    Answer(A),
    /// Nothing is sent.
    Skip,
    /// The connection is closed when all earlier slots have left; for a reason, if there is one to tell.
    Close(Option<String>),
}

enum Slot<A> {
    /// `passable`: a Produce whose appends are done. `bytes`: what its frame holds.
    Waiting {
        produce: bool,
        passable: bool,
        bytes: usize,
    },
    Filled(Value<A>),
}

/// The slots of one connection.
pub struct Slots<A> {
    /// The sequence number of the front slot.
    first: u64,
    slots: VecDeque<Slot<A>>,
    /// Requests that were started and are not answered, how many of them nothing may pass, and the bytes of their frames.
    waiting: usize,
    blocking: usize,
    waiting_bytes: usize,
}

impl<A> Default for Slots<A> {
    fn default() -> Self {
        Self {
            first: 0,
            slots: VecDeque::new(),
            waiting: 0,
            blocking: 0,
            waiting_bytes: 0,
        }
    }
}

impl<A> Slots<A> {
    /// Requests that are not answered.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Bytes of the frames of requests that are not answered.
    pub fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Whether the next request of the connection may start now.
    pub fn may_start(&self, produce: bool) -> bool {
        if produce {
            self.blocking == 0
        } else {
            self.waiting == 0
        }
    }

    /// The sequence number of what leaves next.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// A slot for a request that starts; the number by which it is filled.
    pub fn start(&mut self, produce: bool, bytes: usize) -> u64 {
        debug_assert!(self.may_start(produce));
        self.slots.push_back(Slot::Waiting {
            produce,
            passable: false,
            bytes,
        });
        self.waiting += 1;
        self.blocking += 1;
        self.waiting_bytes += bytes;
        self.first + self.slots.len() as u64 - 1
    }

    /// All appends of this Produce are done: later Produces may start. Without effect on other requests and on answered ones.
    pub fn appended(&mut self, sequence: u64) {
        if let Some(Slot::Waiting {
            produce: true,
            passable: passable @ false,
            ..
        }) = self.slot(sequence)
        {
            *passable = true;
            self.blocking -= 1;
        }
    }

    /// Whether an answer given to `sequence` now would be the next to leave.
    pub fn is_next(&self, sequence: u64) -> bool {
        sequence == self.first && matches!(self.slots.front(), Some(Slot::Waiting { .. }))
    }

    /// Whether `sequence` is still to be answered.
    pub fn is_waiting(&self, sequence: u64) -> bool {
        let index = sequence.checked_sub(self.first).map(|index| index as usize);
        index.is_some_and(|index| matches!(self.slots.get(index), Some(Slot::Waiting { .. })))
    }

    /// Fills a slot, and returns what `start` was told of its frame's bytes; None if it was filled before: the first value stays.
    pub fn fill(&mut self, sequence: u64, value: Value<A>) -> Option<usize> {
        let slot = self.slot(sequence)?;
        let &mut Slot::Waiting {
            passable, bytes, ..
        } = slot
        else {
            return None;
        };
        *slot = Slot::Filled(value);
        self.waiting -= 1;
        self.waiting_bytes -= bytes;
        if !passable {
            self.blocking -= 1;
        }
        Some(bytes)
    }

    /// A slot that is filled from the start: for what the hub itself decides about a frame.
    pub fn push(&mut self, value: Value<A>) {
        self.slots.push_back(Slot::Filled(value));
    }

    /// The next value to leave, if it is there.
    pub fn leave(&mut self) -> Option<Value<A>> {
        if !matches!(self.slots.front(), Some(Slot::Filled(_))) {
            return None;
        }
        self.first += 1;
        match self.slots.pop_front() {
            Some(Slot::Filled(value)) => Some(value),
            _ => None,
        }
    }

    fn slot(&mut self, sequence: u64) -> Option<&mut Slot<A>> {
        let index = sequence.checked_sub(self.first)?;
        self.slots.get_mut(usize::try_from(index).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(slots: &mut Slots<u32>) -> Vec<Value<u32>> {
        std::iter::from_fn(|| slots.leave()).collect()
    }

    #[test]
    fn answers_leave_in_order() {
        let mut slots = Slots::default();
        let numbers: Vec<_> = (0..3)
            .map(|_| {
                let number = slots.start(true, 10);
                slots.appended(number);
                number
            })
            .collect();
        assert_eq!(slots.waiting_bytes(), 30);
        assert_eq!(slots.fill(numbers[2], Value::Answer(2)), Some(10));
        assert_eq!(left(&mut slots), []);
        assert!(slots.fill(numbers[0], Value::Answer(0)).is_some());
        assert_eq!(left(&mut slots), [Value::Answer(0)]);
        assert_eq!(
            slots.fill(numbers[0], Value::Answer(9)),
            None,
            "left already"
        );
        assert_eq!(
            slots.fill(numbers[2], Value::Answer(9)),
            None,
            "filled already"
        );
        assert!(slots.fill(numbers[1], Value::Skip).is_some());
        assert_eq!(left(&mut slots), [Value::Skip, Value::Answer(2)]);
        assert!(slots.is_empty());
        assert_eq!(slots.waiting_bytes(), 0);
    }

    #[test]
    fn close_leaves_after_earlier_answers() {
        let mut slots = Slots::default();
        let first = slots.start(true, 0);
        slots.appended(first);
        let second = slots.start(true, 0);
        slots.fill(second, Value::Close(Some("why".into())));
        assert_eq!(left(&mut slots), []);
        slots.fill(first, Value::Answer(7));
        assert_eq!(
            left(&mut slots),
            [Value::Answer(7), Value::Close(Some("why".into()))]
        );
    }

    /// Rule 5 as a table: what is ahead, and whether a Produce and another request may start behind it.
    #[test]
    fn who_may_pass_whom() {
        #[derive(Clone, Copy, Debug)]
        enum Ahead {
            Produce,
            Appended,
            Other,
            AnsweredProduce,
            AnsweredOther,
        }
        use Ahead::*;
        let table: [(&[Ahead], bool, bool); 12] = [
            (&[], true, true),
            (&[Produce], false, false),
            (&[Appended], true, false),
            (&[Other], false, false),
            (&[AnsweredProduce], true, true),
            (&[AnsweredOther], true, true),
            (&[Appended, Appended], true, false),
            (&[Appended, Produce], false, false),
            // Answered, but the one before is not: order holds the answer back, and nothing else.
            (&[Appended, AnsweredProduce], true, false),
            (&[AnsweredProduce, Appended], true, false),
            (&[AnsweredOther, Other], false, false),
            (&[AnsweredProduce, AnsweredOther], true, true),
        ];
        for (ahead, produce, other) in table {
            let mut slots = Slots::<u32>::default();
            for &one in ahead {
                let number = slots.start(!matches!(one, Other | AnsweredOther), 1);
                match one {
                    Appended => slots.appended(number),
                    AnsweredProduce | AnsweredOther => {
                        slots.fill(number, Value::Answer(0));
                    }
                    Produce | Other => {}
                }
            }
            assert_eq!(slots.may_start(true), produce, "a Produce behind {ahead:?}");
            assert_eq!(
                slots.may_start(false),
                other,
                "another request behind {ahead:?}"
            );
        }
    }

    #[test]
    fn appended_means_nothing_for_other_requests() {
        let mut slots = Slots::<u32>::default();
        let fetch = slots.start(false, 0);
        slots.appended(fetch);
        assert!(!slots.may_start(true));
        slots.appended(99);
        slots.fill(fetch, Value::Skip);
        assert!(slots.may_start(true) && slots.may_start(false));
    }
}

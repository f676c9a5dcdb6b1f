//! Large answers while they are made: which may take more memory, and which wait.
//!
//! An answer of more than a few pages takes its memory here before it is made, step by step as its size becomes known. A few are made at a
//! time. Their steps fit into the bound of answers together with what is not sent yet. The oldest alone may go beyond it, or answers that
//! are half made could wait for each other, and it does so only while all others together stay below. So unsent answers and these come to the
//! bound and one answer at most. Where not even the oldest goes on, clients have to read, or are closed (`shortage`).
//!
//! Values only, no clock and no I/O.

use std::collections::VecDeque;
use std::net::IpAddr;

/// Large answers that are made at a time. More would not be done sooner: one thread makes them.
pub const ANSWERS_AT_ONCE: usize = 4;

/// An answer: the connection it is for, and the request's number there.
pub type Answer = (u64, u64);

/// What is asked for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub answer: Answer,
    /// All that the answer takes then, with what it has.
    pub bytes: usize,
    pub address: IpAddr,
    /// By which the asker knows it.
    pub token: u64,
}

/// What unsent answers take of what all answers may.
#[derive(Clone, Copy, Debug)]
pub struct Unsent {
    pub bytes: usize,
    pub bound: usize,
}

struct Reservation {
    answer: Answer,
    bytes: usize,
    address: IpAddr,
}

#[derive(Default)]
pub struct Reservations {
    /// The oldest first.
    held: Vec<Reservation>,
    waiting: VecDeque<Wanted>,
}

impl Reservations {
    /// The bytes of all answers that are being made.
    pub fn bytes(&self) -> usize {
        self.held.iter().map(|one| one.bytes).sum()
    }

    pub fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Grants now what is wanted, or keeps it for `next`. Nobody who has nothing yet overtakes others like that.
    pub fn ask(&mut self, wanted: Wanted, unsent: Unsent) -> bool {
        let place = self.place(wanted.answer);
        let is_first = place.is_some() || self.newcomer().is_none();
        if is_first && self.may(&wanted, unsent) {
            self.grant(&wanted);
            return true;
        }
        self.waiting.push_back(wanted);
        false
    }

    /// The next one that waits and may have what it wants: it has it now.
    pub fn next(&mut self, unsent: Unsent) -> Option<Wanted> {
        let has_place = |one: &Wanted| self.place(one.answer).is_some();
        let mut waiting = self.waiting.iter();
        let held = waiting.position(|one| has_place(one) && self.may(one, unsent));
        let index = held.or_else(|| {
            self.newcomer()
                .filter(|index| self.may(&self.waiting[*index], unsent))
        })?;
        let wanted = self.waiting.remove(index)?;
        self.grant(&wanted);
        Some(wanted)
    }

    /// The answer is made, or nobody wants it any more.
    pub fn release(&mut self, answer: Answer) {
        self.held.retain(|one| one.answer != answer);
        self.waiting.retain(|one| one.answer != answer);
    }

    /// Takes out what waits for a connection that is no more.
    pub fn forget(&mut self, connection: u64) -> Vec<Wanted> {
        let is_its = |one: &Wanted| one.answer.0 == connection;
        let forgotten = self.waiting.iter().copied().filter(is_its).collect();
        self.waiting.retain(|one| !is_its(one));
        forgotten
    }

    fn place(&self, answer: Answer) -> Option<usize> {
        self.held.iter().position(|one| one.answer == answer)
    }

    /// Who has nothing yet and is next: of the address with the fewest answers in the making, the one that has waited longest.
    fn newcomer(&self) -> Option<usize> {
        let places = |one: &Wanted| {
            let same = self.held.iter().filter(|held| held.address == one.address);
            same.count()
        };
        let waiting = self.waiting.iter().enumerate();
        waiting
            .filter(|(_, one)| self.place(one.answer).is_none())
            .min_by_key(|(_, one)| places(one))
            .map(|(index, _)| index)
    }

    fn may(&self, wanted: &Wanted, unsent: Unsent) -> bool {
        let place = self.place(wanted.answer);
        let has = place.map_or(0, |index| self.held[index].bytes);
        let others = unsent.bytes + self.bytes() - has;
        let fits = others + wanted.bytes <= unsent.bound;
        let is_oldest = place == Some(0) || self.held.is_empty();
        let has_place = place.is_some() || self.held.len() < ANSWERS_AT_ONCE;
        has_place && (fits || is_oldest && others < unsent.bound)
    }

    /// By how much unsent answers must become less before any answer is made on.
    pub fn lacks(&self, unsent: Unsent) -> usize {
        let oldest = self.held.first();
        let goes_on = oldest.is_some_and(|oldest| {
            let waits = |one: &Wanted| one.answer == oldest.answer;
            !self.waiting.iter().any(waits)
        });
        if self.waiting.is_empty() || goes_on {
            return 0;
        }
        let others = unsent.bytes + self.bytes() - oldest.map_or(0, |oldest| oldest.bytes);
        (others + 1).saturating_sub(unsent.bound)
    }

    fn grant(&mut self, wanted: &Wanted) {
        match self.place(wanted.answer) {
            Some(index) => {
                let bytes = &mut self.held[index].bytes;
                *bytes = wanted.bytes.max(*bytes);
            }
            None => self.held.push(Reservation {
                answer: wanted.answer,
                bytes: wanted.bytes,
                address: wanted.address,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BOUND: usize = 100;

    fn unsent(bytes: usize) -> Unsent {
        Unsent {
            bytes,
            bound: BOUND,
        }
    }

    fn wanted(number: u64, bytes: usize) -> Wanted {
        Wanted {
            answer: (number, 0),
            bytes,
            address: [127, 0, 0, 1].into(),
            token: number,
        }
    }

    #[test]
    fn what_fits_is_granted_at_once_and_all_else_in_order() {
        let mut reservations = Reservations::default();
        assert!(reservations.ask(wanted(1, 60), unsent(0)));
        assert!(!reservations.ask(wanted(2, 41), unsent(0)));
        assert!(
            !reservations.ask(wanted(3, 1), unsent(0)),
            "nobody overtakes"
        );
        assert_eq!(reservations.next(unsent(0)), None);
        reservations.release((1, 0));
        assert_eq!(reservations.next(unsent(0)), Some(wanted(2, 41)));
        assert_eq!(reservations.next(unsent(0)), Some(wanted(3, 1)));
        assert_eq!(reservations.next(unsent(0)), None);
        assert_eq!(reservations.bytes(), 42);
    }

    #[test]
    fn the_oldest_goes_on_where_none_has_room() {
        let mut reservations = Reservations::default();
        for number in 1..3 {
            assert!(reservations.ask(wanted(number, 50), unsent(0)));
        }
        assert!(!reservations.ask(wanted(2, 80), unsent(0)));
        assert!(reservations.ask(wanted(1, 180), unsent(0)), "the oldest");
        reservations.release((1, 0));
        assert_eq!(reservations.lacks(unsent(180)), 81);
        assert_eq!(reservations.next(unsent(180)), None, "clients have to read");
        assert_eq!(reservations.next(unsent(99)), Some(wanted(2, 80)));
        assert_eq!(reservations.lacks(unsent(99)), 0);
    }

    #[test]
    fn a_few_are_made_at_a_time() {
        let mut reservations = Reservations::default();
        for number in 0..ANSWERS_AT_ONCE as u64 {
            assert!(reservations.ask(wanted(number, 1), unsent(0)));
        }
        assert!(!reservations.ask(wanted(9, 1), unsent(0)));
        assert!(reservations.ask(wanted(0, 2), unsent(0)), "has its place");
        reservations.release((2, 0));
        assert_eq!(reservations.next(unsent(0)), Some(wanted(9, 1)));
    }

    #[test]
    fn the_address_with_the_fewest_is_next() {
        let mut reservations = Reservations::default();
        for number in 0..10 {
            reservations.ask(wanted(number, 1), unsent(0));
        }
        let other = Wanted {
            address: [127, 0, 0, 2].into(),
            ..wanted(10, 1)
        };
        assert!(!reservations.ask(other, unsent(0)));
        reservations.release((0, 0));
        assert_eq!(reservations.next(unsent(0)), Some(other));
    }

    #[test]
    fn the_end_of_a_connection_is_told_to_those_who_wait() {
        let mut reservations = Reservations::default();
        assert!(reservations.ask(wanted(1, 100), unsent(0)));
        assert!(!reservations.ask(wanted(2, 1), unsent(0)));
        assert_eq!(reservations.forget(2), [wanted(2, 1)]);
        assert!(!reservations.has_waiting());
        assert_eq!(reservations.forget(1), []);
        assert_eq!(
            reservations.bytes(),
            100,
            "it is made on, until somebody looks"
        );
    }

    proptest! {
        /// Each answer asks for more, step by step, is sent, and read some time later.
        #[test]
        fn all_are_made_and_the_sum_stays_below_the_bound_and_one_answer(
            sizes in prop::collection::vec((1..150usize, 1..40usize), 1..30),
            reads in prop::collection::vec(any::<bool>(), 1..50),
        ) {
            let mut reservations = Reservations::default();
            let mut unread = VecDeque::new();
            let mut has: Vec<usize> = vec![0; sizes.len()];
            let mut asks: VecDeque<usize> = (0..sizes.len()).collect();
            let (mut made, mut reads) = (0, reads.into_iter().cycle());
            while made < sizes.len() {
                let sum = |unread: &VecDeque<usize>| unsent(unread.iter().sum());
                if let Some(index) = asks.pop_front() {
                    let (size, step) = sizes[index];
                    if has[index] == size {
                        reservations.release((index as u64, 0));
                        unread.push_back(size);
                        made += 1;
                    } else {
                        let next = wanted(index as u64, size.min(has[index] + step));
                        if reservations.ask(next, sum(&unread)) {
                            has[index] = next.bytes;
                            asks.push_back(index);
                        }
                    }
                }
                if reads.next() == Some(true) || reservations.lacks(sum(&unread)) > 0 {
                    unread.pop_front();
                }
                let waited = reservations.has_waiting();
                while let Some(next) = reservations.next(sum(&unread)) {
                    has[next.token as usize] = next.bytes;
                    asks.push_back(next.token as usize);
                }
                prop_assert!(!waited || !asks.is_empty() || reservations.lacks(sum(&unread)) > 0, "all wait");
                prop_assert!(sum(&unread).bytes + reservations.bytes() < BOUND + 150);
            }
        }
    }
}

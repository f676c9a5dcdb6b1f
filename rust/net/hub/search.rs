//! Where files need the descriptors that are left, threads look together for the idle connection that makes room.
//!
//! The loop asks. Each thread names the one of its own that would go first, and the last one to name hers has the
//! thread of the best close it. A thread may be busy with its turn: whoever asks again waits for it no longer, and the
//! best so far goes.

use std::cmp::Reverse;

use crate::net::limits::ACCEPT_REST_MS;

/// The greatest goes first: of the addresses with idle connections, that with the most connections loses the one that
/// was idle for longest. The number of connections, when it was active last, and its place in the order of coming.
pub(super) type Idleness = (usize, Reverse<(u64, u64)>);

/// The part of a thread in a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Task {
    #[default]
    Nothing,
    Name,
    Close,
}

pub(super) struct Search {
    /// By the numbers of the hubs. The loop has none: it looks among its own first.
    tasks: Vec<Task>,
    best: Option<(Idleness, usize)>,
    asked_ms: u64,
}

impl Search {
    pub fn of(hubs: usize) -> Self {
        Self {
            tasks: vec![Task::Nothing; hubs],
            best: None,
            asked_ms: 0,
        }
    }

    /// A place is wanted, and there are the threads of these hubs. Returns the hubs that have something to do.
    pub fn ask(&mut self, now_ms: u64, threads: impl Iterator<Item = usize>) -> Vec<usize> {
        if self.is_under_way() {
            if now_ms < self.asked_ms + ACCEPT_REST_MS {
                return Vec::new();
            }
            if self.best.is_some() {
                return self.decide().into_iter().collect();
            }
        }
        self.asked_ms = now_ms;
        let asked = threads.filter(|number| self.tasks[*number] != Task::Close);
        let asked: Vec<_> = asked.collect();
        asked
            .iter()
            .for_each(|&number| self.tasks[number] = Task::Name);
        asked
    }

    pub fn task(&self, number: usize) -> Task {
        self.tasks.get(number).copied().unwrap_or_default()
    }

    /// A hub names its own, if it has any. Returns the hub that is to close one.
    pub fn named(&mut self, number: usize, idlest: Option<Idleness>) -> Option<usize> {
        self.done(number);
        let own = idlest.map(|idlest| (idlest, number));
        self.best = self.best.max(own);
        match self.is_under_way() {
            true => None,
            false => self.decide(),
        }
    }

    /// A hub has done what it had to do.
    pub fn done(&mut self, number: usize) {
        if let Some(task) = self.tasks.get_mut(number) {
            *task = Task::Nothing;
        }
    }

    fn is_under_way(&self) -> bool {
        self.tasks.contains(&Task::Name)
    }

    fn decide(&mut self) -> Option<usize> {
        let (_, number) = self.best.take()?;
        for task in self.tasks.iter_mut().filter(|task| **task == Task::Name) {
            *task = Task::Nothing;
        }
        self.tasks[number] = Task::Close;
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn idle(held: usize, since_ms: u64) -> Option<Idleness> {
        Some((held, Reverse((since_ms, 1))))
    }

    #[test]
    fn the_best_of_all_goes() {
        let mut search = Search::of(4);
        assert_eq!(search.ask(1000, 1..4), [1, 2, 3]);
        assert_eq!(search.named(2, idle(5, 70)), None);
        assert_eq!(search.named(1, idle(5, 60)), None);
        assert_eq!(search.named(3, idle(4, 10)), Some(1));
        assert_eq!(search.task(1), Task::Close);
        search.done(1);
        assert_eq!(search.task(1), Task::Nothing);
        // Nobody has one.
        assert_eq!(search.ask(1001, 1..4), [1, 2, 3]);
        for number in 1..4 {
            assert_eq!(search.named(number, None), None);
        }
    }

    #[test]
    fn a_busy_thread_is_waited_for_once() {
        let mut search = Search::of(3);
        assert_eq!(search.ask(1000, 1..3), [1, 2]);
        assert_eq!(search.named(2, idle(1, 7)), None);
        assert!(search.ask(1001, 1..3).is_empty());
        assert_eq!(search.ask(1000 + ACCEPT_REST_MS, 1..3), [2]);
        assert_eq!(
            (search.task(1), search.task(2)),
            (Task::Nothing, Task::Close)
        );
        // It has not closed one yet, and is to close one.
        assert_eq!(search.ask(1001 + ACCEPT_REST_MS, 1..3), [1]);
        assert_eq!(search.task(2), Task::Close);
        assert_eq!(search.named(1, None), None);
    }
}

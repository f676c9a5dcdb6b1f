//! Connections that move, from a thread with much to do to one with less.
//!
//! What a connection will do does not show when it comes, and Kafka's clients stay for long. So once a second at most a
//! thread that worked more than 1.3 times the mean hands one on. A connection moves only where nothing of it is under
//! way ([`Connection::may_move`]): no request, no answer, no part of a frame. Its id stays, and with it all that others
//! know of it. [`Joint`] has the hubs of those that are not at home, where their ids say they are:
//!
//! | state | table of its home | table of another hub | `Joint` |
//! |---|---|---|---|
//! | at home | has it | | |
//! | on its way | keeps its place | | the hub that it goes to, and the connection itself |
//! | a guest | keeps its place | has it | its hub |
//! | on its way home | keeps its place | | the connection itself |
//! | ended as a guest | keeps its place until the hub looks | | among those that ended |
//!
//! The lock of the hub that it leaves is held while `Joint` learns of it. [`Hubs::of`] looks there before it has taken
//! a hub's lock and again after, and takes in those that are on their way: it finds a connection wherever it is.

use super::*;

/// How often a thread looks whether it has more to do than others.
const LOOK_US: u64 = 250_000;
/// At most one connection leaves a thread in this time.
const REST_US: u64 = 1_000_000;
/// For how long only one with a good part of the difference leaves; then any one does.
const CHOOSE_US: u64 = 500_000;
/// Less than this is no reason to move: a tenth of a thread.
const GAP_US: u64 = 100_000;
/// So many bytes cost as much as a frame.
const UNIT_BYTES: usize = 16 << 10;

/// The cost of a connection, or of all of a hub, in a second. Its unit is a frame.
#[derive(Clone, Copy, Debug, Default)]
pub struct Load {
    second: u32,
    units: u32,
    before: u32,
}

impl Load {
    pub fn add(&mut self, now_ms: u64, bytes: usize) {
        self.turn_to(now_ms);
        self.units = self.units.saturating_add(1 + (bytes / UNIT_BYTES) as u32);
    }

    /// In the last whole second.
    fn last(&mut self, now_ms: u64) -> u64 {
        self.turn_to(now_ms);
        u64::from(self.before)
    }

    fn turn_to(&mut self, now_ms: u64) {
        let second = (now_ms / 1000) as u32;
        if second != self.second {
            self.before = match second == self.second + 1 {
                true => self.units,
                false => 0,
            };
            (self.second, self.units) = (second, 0);
        }
    }
}

/// One is to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wanted {
    to: usize,
    since_us: u64,
    /// How much longer this thread worked in the last second than the other, and how long it worked itself.
    gap_us: u64,
    own_us: u64,
}

impl Wanted {
    /// True for a connection that had so much of all that this thread did.
    fn fits(&self, part: u64, all: u64, now_us: u64) -> bool {
        let costs_us = part * self.own_us / all.max(1);
        let is_small = costs_us < self.gap_us / 8;
        let may_be_small = now_us >= self.since_us + CHOOSE_US;
        // One that costs all that there is too much would only change the places.
        part > 0 && costs_us <= self.gap_us * 3 / 4 && (!is_small || may_be_small)
    }
}

/// The part of a hub.
#[derive(Debug, Default)]
pub(super) struct Moving {
    pub role: Role,
    pub load: Load,
    look_us: u64,
    wanted: Option<Wanted>,
}

impl Moving {
    /// Of a hub that does not serve yet, unless it is the loop's.
    pub fn of(number: usize) -> Self {
        let role = match number {
            0 => Role::Alone,
            _ => Role::Leaves,
        };
        Self {
            role,
            ..Self::default()
        }
    }

    /// The hub has another part from now on.
    pub fn begin(&mut self, role: Role) {
        (self.role, self.wanted) = (role, None);
    }
}

/// Who has more to do than 1.3 times the mean, and most the one that has least: the numbers among `loads_us`.
fn too_much(number: usize, loads_us: &[u64]) -> Option<(usize, u64)> {
    let own_us = *loads_us.get(number)?;
    let sum_us: u64 = loads_us.iter().sum();
    let (least, least_us) = loads_us.iter().enumerate().min_by_key(|(_, load)| **load)?;
    let gap_us = own_us - least_us;
    let is_much = own_us * 10 * loads_us.len() as u64 > sum_us * 13;
    (is_much && gap_us >= GAP_US).then_some((least, gap_us))
}

impl<T> Hub<T> {
    /// Counts what a connection costs, where there are others that could have it.
    pub(super) fn costs(&mut self, connection: &mut Connection, bytes: usize) {
        if self.moving.role == Role::Shares {
            connection.load.add(self.now_ms, bytes);
            self.moving.load.add(self.now_ms, bytes);
        }
    }

    /// Looks whether others have less to do, now and then.
    pub(super) fn look_at_others(&mut self, now_us: u64) {
        if self.moving.role != Role::Shares || now_us < self.moving.look_us {
            return;
        }
        self.moving.look_us = now_us + LOOK_US;
        let loads: Vec<_> = self.joint.threads().into_iter().map(|one| one.1).collect();
        let found = too_much(self.number - 1, &loads);
        let before = self.moving.wanted.take();
        self.moving.wanted = found.map(|(least, gap_us)| Wanted {
            to: least + 1,
            since_us: before.map_or(now_us, |wanted| wanted.since_us),
            gap_us,
            own_us: loads[self.number - 1],
        });
    }

    /// Sends a connection to another hub, if one is to leave and this one may. Else it stays.
    pub(super) fn send_on(&mut self, mut connection: Box<Connection>) -> Option<Box<Connection>> {
        if self.moving.role == Role::Leaves {
            return self.send_to(connection, None);
        }
        let Some(wanted) = self.moving.wanted else {
            return Some(connection);
        };
        let now_us = self.joint.now_us();
        let part = connection.load.last(self.now_ms);
        let all = self.moving.load.last(self.now_ms);
        // A thread that was idle meanwhile looks again first.
        let is_old = now_us > self.moving.look_us + LOOK_US;
        if is_old || !wanted.fits(part, all, now_us) {
            return Some(connection);
        }
        let stays = self.send_to(connection, Some(wanted.to));
        if stays.is_none() {
            self.moving.wanted = None;
            self.moving.look_us = now_us + REST_US;
        }
        stays
    }

    /// Sends a connection that was taken out of the table to another hub that serves, or to any. If it may not go now,
    /// it is returned.
    pub(super) fn send_to(
        &mut self,
        connection: Box<Connection>,
        to: Option<usize>,
    ) -> Option<Box<Connection>> {
        let joint = Arc::clone(&self.joint);
        // It is counted at the other hub before that one may end.
        let serving = joint.serving.lock();
        let to = to.unwrap_or_else(|| joint.choose(serving.threads, joint.now_us()));
        // The lane is given back to this hub.
        let may_leave = connection.may_move(&self.shared.limits)
            && !self.draining
            && !joint.elsewhere.stands_still()
            && serving.has(to)
            && to != self.number
            && !self.short.has_waiters()
            && self.short.lane.is_none();
        if !may_leave || epoll::delete(&self.epoll, &connection.transport).is_err() {
            return Some(connection);
        }
        self.charged -= connection.charged;
        self.connections.leave(connection.id);
        joint.send_on(self.number, to, connection);
        None
    }

    #[cfg(test)]
    pub fn connection_is_gone(&mut self, id: u64) -> bool {
        self.connections.get(id).is_none()
    }

    #[cfg(test)]
    pub fn ids(&self) -> Vec<u64> {
        self.connections.ids()
    }

    /// True if nothing of a frame is there.
    #[cfg(test)]
    pub fn holds_nothing(&mut self, id: u64) -> bool {
        let connection = self.connections.get(id);
        connection.is_some_and(|connection| connection.input.is_empty())
    }

    /// Sends one of its connections to another hub. False if it may not go now.
    #[cfg(test)]
    pub fn move_to(&mut self, id: u64, to: usize) -> bool {
        let Some(connection) = self.connections.take(id) else {
            return false;
        };
        match self.send_to(connection, Some(to)) {
            Some(stays) => {
                self.connections.put(stays);
                false
            }
            None => true,
        }
    }

    /// Takes in the connections that others have sent.
    pub(super) fn welcome_those_who_came(&mut self) {
        let came = self.joint.elsewhere.come(self.number);
        if came.is_empty() {
            return;
        }
        for mut connection in came {
            let id = connection.id;
            self.connections.welcome(id, &connection.origin);
            self.charged += connection.charged;
            connection.sent_in_round = (0, 0);
            let data = EventData::new_u64(id);
            let added = epoll::add(
                &self.epoll,
                &connection.transport,
                data,
                connection.interest,
            );
            if let Err(error) = added {
                self.end(connection, Some(error.to_string()));
                continue;
            }
            self.watch_idleness(&mut connection);
            self.connections.put(connection);
            // While the hub stops it may end at once.
            if self.draining {
                self.mark_dirty(id);
            }
        }
        self.set_timer();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_has_much_more_than_the_others_sends_one_on() {
        assert_eq!(too_much(0, &[900_000, 100_000]), Some((1, 800_000)));
        assert_eq!(too_much(1, &[900_000, 100_000]), None);
        // 1.3 times the mean is not more than that.
        assert_eq!(too_much(0, &[650_000, 350_000]), None);
        assert_eq!(too_much(0, &[651_000, 349_000]), Some((1, 302_000)));
        assert_eq!(
            too_much(2, &[300_000, 500_000, 900_000]),
            Some((0, 600_000))
        );
        // Nobody has much to do.
        assert_eq!(too_much(0, &[99_000, 0]), None);
        assert_eq!(too_much(0, &[0, 0]), None);
    }

    #[test]
    fn the_one_that_goes_makes_it_more_equal() {
        let wanted = Wanted {
            to: 2,
            since_us: 1_000_000,
            gap_us: 400_000,
            own_us: 800_000,
        };
        let fits = |percent: u64, now_us: u64| wanted.fits(percent, 100, now_us);
        assert!(fits(25, 1_000_000));
        // It is all that there is too much: the other thread would have it then.
        assert!(!fits(50, 9_000_000));
        assert!(!fits(100, 9_000_000));
        // A small one goes when no other was found.
        assert!(!fits(1, 1_499_999));
        assert!(fits(1, 1_500_000));
        assert!(!fits(0, 9_000_000));
    }

    #[test]
    fn what_a_connection_costs_is_that_of_the_last_whole_second() {
        let mut load = Load::default();
        for _ in 0..10 {
            load.add(1_500, 100);
        }
        load.add(1_900, 3 * UNIT_BYTES);
        assert_eq!(load.last(1_999), 0);
        assert_eq!(load.last(2_000), 14);
        load.add(2_001, 0);
        assert_eq!(load.last(2_999), 14);
        assert_eq!(load.last(3_000), 1);
        assert_eq!(load.last(9_000), 0);
    }
}

//! What happens while memory is short: who is read all the same, who waits, and who is closed. `budget` has the rules.

use parking_lot::MutexGuard;

use super::*;
use crate::net::budget::{
    Holder, Kind, Lack, Relief, Shares, TICK_MS, WAITERS_MAX, deadline_ms, victims,
};

/// Connections that wait for memory.
#[derive(Default)]
pub(super) struct Short {
    /// They would begin or go on with a frame; a connection that is not `starved` any more may still be listed.
    starved: VecDeque<u64>,
    /// The same with a small frame.
    starved_small: VecDeque<u64>,
    /// They have a request whose answer may be large.
    deferred: VecDeque<u64>,
    /// The connection whose frame goes on in the lane, and when it was chosen; None once the frame is complete.
    pub lane: Option<(u64, u64)>,
    /// When holders are looked at next. Waiters that are let try again, in vain, do not put it off.
    pub tick_ms: u64,
    /// When somebody last had to wait for memory of frames.
    starved_ms: Option<u64>,
}

impl Short {
    pub fn has_waiters(&self) -> bool {
        !(self.starved.is_empty() && self.starved_small.is_empty() && self.deferred.is_empty())
    }
}

impl<T> Hub<T> {
    /// True if somebody waits for memory that this hub may give.
    pub(super) fn has_waiters(&self) -> bool {
        self.short.has_waiters() || self.shared.answers.has_waiting()
    }

    /// When holders are looked at next, while somebody at any hub waits.
    pub(super) fn tick_at_ms(&self) -> Option<u64> {
        let is_short = |lack| self.shared.shortages.is_short(lack, self.now_ms);
        let ticks = self.has_waiters() || is_short(Lack::Frames) || is_short(Lack::Answers);
        ticks.then_some(self.short.tick_ms)
    }

    /// How much a connection may bring into the shared buffer. 0: only what its frame has memory for, or nothing if it is `starved` now.
    pub(super) fn permit(&mut self, id: u64) -> usize {
        let all = self.brought.len();
        let Some(connection) = self.connections.get(id) else {
            return 0;
        };
        let growth = connection.input.growth();
        if self.shared.budget.is_plentiful(growth + SHARED_READ_BYTES) {
            if growth > 0 {
                self.grow(id, Account::Frames);
            }
            return all;
        }
        let (is_reserved, address) = (connection.is_reserved, connection.origin.peer.ip());
        let kind = if is_reserved {
            Kind::Broker
        } else {
            Kind::Large
        };
        let receives = connection.input.receiving().is_some();
        if receives && growth == 0 {
            // Its memory is charged already; what follows it may wait.
            return 0;
        }
        if !receives
            && !is_reserved
            && let Some(length) = connection.next_small()
        {
            if self.shared.budget.has_room(Kind::Small, length) {
                // The frame, and nothing behind it.
                return 4 + length;
            }
            self.starve(id, true);
            return 0;
        }
        let more = if receives { growth } else { FIRST_BYTES_MAX };
        self.count_shares(false);
        let most = self.shared.budget.bounds().common / 100 * self.shared.limits.percent_per_ip_max;
        if self.shared.budget.has_room(kind, more)
            && (is_reserved
                || self
                    .shared
                    .shortages
                    .allow(address, more, most, self.now_ms))
        {
            self.own_shares().add(address, more);
            if receives {
                self.grow(id, Account::Frames);
                return 0;
            }
            return all;
        }
        self.own_shares().add(address, 0);
        let has_lane = |short: &Short| short.lane.is_some_and(|(holder, _)| holder == id);
        if !has_lane(&self.short) {
            self.starve(id, false);
            self.choose_lane();
        }
        if has_lane(&self.short) {
            if receives {
                self.grow(id, Account::Lane);
                return 0;
            }
            return all;
        }
        0
    }

    fn grow(&mut self, id: u64, account: Account) {
        if let Some(connection) = self.connections.get(id)
            && let Err(error) = connection.input.grow(account)
        {
            connection.refuse(error.to_string());
        }
    }

    /// The memory of this hub's connections, by their addresses.
    fn own_shares(&self) -> MutexGuard<'_, Shares> {
        self.shared.shortages.own(self.number)
    }

    fn starve(&mut self, id: u64, is_small: bool) {
        self.begin_ticks(Lack::Frames);
        self.short.starved_ms = Some(self.now_ms);
        if let Some(connection) = self.connections.get(id) {
            connection.starved = true;
            if is_small {
                self.short.starved_small.push_back(id);
            } else {
                self.short.starved.push_back(id);
            }
            self.shared.budget.want();
            self.set_timer();
        }
    }

    pub(super) fn begin_ticks(&mut self, lack: Lack) {
        if self.short.tick_ms < self.now_ms {
            self.short.tick_ms = self.now_ms + TICK_MS;
        }
        self.say(lack);
    }

    /// The other hubs hear that somebody waits here.
    fn say(&self, lack: Lack) {
        if self.shared.shortages.say(lack, self.now_ms) {
            self.joint.wake_others(self.number);
        }
    }

    /// Whether a request may not start now, since its answer may be large and unsent answers take all they may.
    pub(super) fn waits_for_answers(
        &self,
        connection: &Connection,
        api_key: i16,
        length: usize,
    ) -> bool {
        // Records are sent from their files.
        let api = self.shared.supported.api(api_key);
        let is_small = api.is_some_and(|api| api.has_small_answers)
            || api_key == keys::FETCH && length < SMALL_FRAME_BYTES;
        !self.shared.budget.has_room_for_answers() && !is_small && !connection.is_reserved
    }

    pub(super) fn defer(&mut self, connection: &mut Connection) {
        self.begin_ticks(Lack::Answers);
        connection.deferred = true;
        self.short.deferred.push_back(connection.id);
        self.shared.budget.want();
        self.set_timer();
    }

    /// Lets those try again that waited for memory which may be there now.
    pub(super) fn feed(&mut self) {
        if self.shared.budget.has_room_for_answers() {
            for id in drain_some(&mut self.short.deferred) {
                if let Some(connection) = self.connections.get(id) {
                    connection.deferred = false;
                    self.mark_dirty(id);
                }
            }
        }
        self.grant();
        let mut fed = Vec::new();
        if self.shared.budget.has_room(Kind::Small, 1) {
            fed.extend(drain_some(&mut self.short.starved_small));
        }
        if self.shared.budget.has_room(Kind::Large, FIRST_BYTES_MAX) {
            fed.extend(drain_some(&mut self.short.starved));
        }
        self.unstarve(fed);
        self.choose_lane();
        self.shared.budget.want();
        self.set_timer();
    }

    fn unstarve(&mut self, ids: Vec<u64>) {
        for id in ids {
            if let Some(connection) = self.connections.get(id)
                && mem::take(&mut connection.starved)
            {
                self.mark_dirty(id);
            }
        }
    }

    /// Gives the lane, if it is free, to one that waits: of the address that holds least, the one that has waited longest.
    fn choose_lane(&mut self) {
        if let Some((id, chosen_ms)) = self.short.lane {
            let connection = self.connections.get(id);
            let goes_on = connection.is_some_and(|connection| {
                connection.input.receiving().is_some()
                    || chosen_ms + TICK_MS > self.now_ms && !connection.starved
            });
            if !goes_on {
                self.short.lane = None;
                self.shared.budget.leave_lane(self.number);
            }
        }
        if self.short.lane.is_some() || !self.shared.budget.is_lane_empty() {
            return;
        }
        let mut best = None;
        for &id in &self.short.starved {
            // One that waits for an earlier answer could not be started when it is complete.
            if let Some(connection) = self.connections.get(id)
                && connection.starved
                && connection.slots.is_empty()
            {
                let address = connection.origin.peer.ip();
                let held = self.shared.shortages.held_by(address, self.now_ms);
                if best.is_none_or(|(least, _)| held < least) {
                    best = Some((held, id));
                }
            }
        }
        if let Some((_, id)) = best
            && self.shared.budget.take_lane(self.number)
        {
            self.short.lane = Some((id, self.now_ms));
            self.unstarve(vec![id]);
        }
    }

    fn count_shares(&mut self, anew: bool) {
        if !anew && !self.own_shares().is_old(self.now_ms) {
            return;
        }
        let mut held = Vec::new();
        for id in self.connections.ids() {
            if let Some(connection) = self.connections.get(id)
                && !connection.is_reserved
            {
                let bytes = connection.input.held() + connection.slots.waiting_bytes();
                if bytes > 0 || connection.starved {
                    held.push((connection.origin.peer.ip(), bytes));
                }
            }
        }
        self.own_shares().count(self.now_ms, held.into_iter());
    }

    /// Once in `TICK_MS` while somebody waits: closes those that hold memory without need.
    pub(super) fn relieve(&mut self) {
        let starved_ms = self.short.starved_ms;
        let frames_are_short = !self.short.starved.is_empty()
            || !self.short.starved_small.is_empty()
            || starved_ms.is_some_and(|at_ms| at_ms + TICK_MS >= self.now_ms);
        let answers_are_short =
            !self.short.deferred.is_empty() || self.shared.answers.has_waiting();
        if frames_are_short {
            self.say(Lack::Frames);
        }
        if answers_are_short {
            self.say(Lack::Answers);
        }
        // Also where those who wait are others'.
        let frames_are_short = self.shared.shortages.is_short(Lack::Frames, self.now_ms);
        let answers_are_short = self.shared.shortages.is_short(Lack::Answers, self.now_ms);
        if !(frames_are_short || answers_are_short) || self.now_ms < self.short.tick_ms {
            return;
        }
        self.short.tick_ms = self.now_ms + TICK_MS;
        self.count_shares(true);
        let (mut of_frames, mut of_answers) = (Vec::new(), Vec::new());
        for id in self.connections.ids() {
            let Some(connection) = self.connections.get(id) else {
                continue;
            };
            let (is_frame_idle, are_answers_idle) = idle(connection, self.now_ms);
            let bytes = connection.input.held();
            if bytes > 0 && (is_frame_idle || are_answers_idle) {
                of_frames.push(Holder {
                    connection: id,
                    bytes,
                });
            }
            let bytes = connection.charged;
            if bytes > 0 && are_answers_idle {
                of_answers.push(Holder {
                    connection: id,
                    bytes,
                });
            }
        }
        let bounds = *self.shared.budget.bounds();
        let mut closed = Vec::new();
        if frames_are_short {
            let lane = self.short.lane.map(|(id, _)| id);
            let in_lane = |holder: &&Holder| lane == Some(holder.connection);
            closed.extend(of_frames.iter().filter(in_lane).copied());
            let room = bounds.common.saturating_sub(self.shared.budget.frames());
            let bytes = (bounds.common / 4).saturating_sub(room);
            closed.extend(victims(of_frames, Relief { bytes }));
        }
        let is_deferred = answers_are_short && !self.shared.budget.has_room_for_answers();
        let bytes = match is_deferred {
            true => (self.shared.budget.answers()).saturating_sub(bounds.answers / 4 * 3),
            false => 0,
        };
        let bytes = bytes.max(self.shared.answers.lacks(self.unsent()));
        closed.extend(victims(of_answers, Relief { bytes }));
        for holder in closed {
            if let Some(mut connection) = self.connections.take(holder.connection) {
                let reason = reason(&mut connection, self.now_ms);
                self.end(connection, Some(reason));
            }
        }
        // Whoever waits is looked at again, a few at a time, also where no memory was released: it may need less now.
        let fed = drain_some(&mut self.short.starved);
        self.unstarve(fed);
        self.feed();
    }
}

fn drain_some(queue: &mut VecDeque<u64>) -> Vec<u64> {
    queue.drain(..queue.len().min(WAITERS_MAX)).collect()
}

/// Whether a connection does nothing with the frame that has begun, and with the answers that it gets.
fn idle(connection: &mut Connection, now_ms: u64) -> (bool, bool) {
    let is_blocked = connection.interest.contains(EventFlags::OUT);
    let charged = connection.charged;
    let are_answers_idle = is_blocked
        && connection.sending.is_some_and(|moves| {
            let is_still = moves.is_still(0, now_ms) && !connection.is_writable();
            is_still || moves.is_late(charged, now_ms)
        });
    let length = connection.input.receiving().unwrap_or(0);
    let Some(moves) = connection.input.moves().copied() else {
        return (false, are_answers_idle);
    };
    let is_late = moves.age_ms(now_ms) > deadline_ms(length);
    // What is unread tells of a loop that was held up, rather than of a client that stands still.
    let is_still = moves.is_still(0, now_ms) && moves.is_still(connection.unread(), now_ms);
    (is_late || is_still, are_answers_idle)
}

fn reason(connection: &mut Connection, now_ms: u64) -> String {
    let held = connection.input.held();
    let age_ms = connection.input.moves().map(|moves| moves.age_ms(now_ms));
    match (connection.input.receiving(), age_ms) {
        (Some(length), Some(age_ms)) if held >= connection.charged => format!(
            "memory is short, and a frame of {length} bytes that holds {held} does not come in (began {age_ms} ms ago)"
        ),
        _ => format!(
            "memory is short, and {} bytes of answers are not read",
            connection.charged
        ),
    }
}

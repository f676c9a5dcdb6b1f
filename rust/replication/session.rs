//! A fetch session (KIP-227), the follower's side: what the leader remembers of us, so that a request names only what changed.
//!
//! A request is *full* (it names every partition, and begins a session) or *incremental* (it names what changed, and what left). The rules are
//! those of Kafka's `FetchSessionHandler`:
//!
//! | after | the next request has |
//! |---|---|
//! | a full answer with a session | that session, epoch 1 |
//! | an incremental answer | the same session, the next epoch |
//! | an answer without a session | no session (id 0), epoch 0: full |
//! | FETCH_SESSION_ID_NOT_FOUND, or a full answer of the wrong partitions | no session, epoch 0: full |
//! | any other error, or a lost connection | the old session's id with epoch 0: full, and the leader forgets the old one |
//!
//! The leader tells a high watermark once. An answer's row that was not used is therefore lost news, unless the partition leaves the session
//! and comes again: [`Session::begin_anew`] sees to that for all partitions at once.
//!
//! Values go in, values come out: no I/O here.

use super::table::PartitionKey;
use crate::wire::fetch::ResponseHead;

const NO_SESSION: i32 = 0;
/// The epoch of a request that begins a session.
const INITIAL_EPOCH: i32 = 0;
pub(super) const FETCH_SESSION_ID_NOT_FOUND: i16 = 70;
pub(super) const INVALID_FETCH_SESSION_EPOCH: i16 = 71;

/// The fields that are asked of one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub offset: i64,
    pub start_offset: i64,
    pub leader_epoch: i32,
    pub last_epoch: i32,
    /// Which of the partition's entries in the table asked: not told to the leader.
    pub generation: u64,
}

impl Row {
    /// True if the leader would be told the same.
    fn says_the_same(&self, other: &Self) -> bool {
        let generation = other.generation;
        Row {
            generation,
            ..*self
        } == *other
    }
}

/// The partitions that a request names.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Named {
    /// Indexes of the rows that are named, in the order of the request.
    pub rows: Vec<usize>,
    pub forgotten: Vec<PartitionKey>,
}

/// Why an answer is not used.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// The session is over; a full request may follow at once.
    SessionOver,
    /// The leader wants to be left alone for a while.
    Throttled,
    /// A full request would have the same answer: to be tried again after a back-off.
    Invalid(String),
}

#[derive(Debug)]
pub(super) struct Session {
    id: i32,
    epoch: i32,
    /// The rows that the leader knows once it has the request that was made last, in the order of
    /// the keys.
    rows: Vec<(PartitionKey, Row)>,
    /// A full request begins with the partition behind this one: without a session, the first partitions of a request could fill every answer.
    after: Option<PartitionKey>,
}

impl Session {
    pub fn new() -> Self {
        Self {
            id: NO_SESSION,
            epoch: INITIAL_EPOCH,
            rows: Vec::new(),
            after: None,
        }
    }

    pub fn id(&self) -> i32 {
        self.id
    }

    pub fn epoch(&self) -> i32 {
        self.epoch
    }

    pub fn is_full(&self) -> bool {
        self.epoch == INITIAL_EPOCH
    }

    pub fn rows(&self) -> &[(PartitionKey, Row)] {
        &self.rows
    }

    /// The partitions that a request for `wanted` names; `wanted` is in the order of the keys, and
    /// is what the session has from now on.
    pub fn request(&mut self, wanted: Vec<(PartitionKey, Row)>) -> Named {
        debug_assert!(wanted.is_sorted_by(|one, next| one.0 < next.0));
        let before = std::mem::replace(&mut self.rows, wanted);
        let mut named = Named::default();
        if self.is_full() {
            let first = match &self.after {
                None => 0,
                Some(after) => self.rows.partition_point(|(key, _)| key <= after),
            };
            named.rows = (first..self.rows.len()).chain(0..first).collect();
            return named;
        }
        let mut before = before.into_iter().peekable();
        for (index, (key, row)) in self.rows.iter().enumerate() {
            while let Some((gone, _)) = before.next_if(|(old, _)| old < key) {
                named.forgotten.push(gone);
            }
            let known = before.next_if(|(old, _)| old == key);
            if !known.is_some_and(|(_, known)| known.says_the_same(row)) {
                named.rows.push(index);
            }
        }
        named.forgotten.extend(before.map(|(gone, _)| gone));
        named
    }

    /// The row of a partition that an answer names.
    pub fn find(&self, topic: &str, partition: i32) -> Option<&(PartitionKey, Row)> {
        let index = self.rows.binary_search_by(|(key, _)| {
            let order = (*key.topic).cmp(topic);
            order.then(key.partition.cmp(&partition))
        });
        index.ok().and_then(|index| self.rows.get(index))
    }

    /// Takes note of an answer. `answered`: how many rows it has; `unknown`: one that was not asked for.
    pub fn answered(
        &mut self,
        head: ResponseHead,
        answered: usize,
        unknown: Option<&str>,
    ) -> Result<(), Refused> {
        let was_full = self.is_full();
        if head.error_code != 0 {
            if head.error_code == FETCH_SESSION_ID_NOT_FOUND {
                self.forget();
            } else {
                self.begin_anew();
            }
            let is_of_session = matches!(
                head.error_code,
                FETCH_SESSION_ID_NOT_FOUND | INVALID_FETCH_SESSION_EPOCH
            );
            if is_of_session && !was_full {
                return Err(Refused::SessionOver);
            }
            return Err(Refused::Invalid(format!(
                "the leader answered the whole Fetch with error {}",
                head.error_code
            )));
        }
        if was_full && answered == 0 && !self.rows.is_empty() && head.throttle_time_ms > 0 {
            self.forget();
            return Err(Refused::Throttled);
        }
        if let Some(unknown) = unknown {
            let reason = format!("the answer has {unknown}, which was not asked for");
            self.end(was_full);
            return Err(Refused::Invalid(reason));
        }
        if was_full && answered != self.rows.len() {
            let asked = self.rows.len();
            self.forget();
            return Err(Refused::Invalid(format!(
                "the answer to a full Fetch of {asked} partitions has {answered}"
            )));
        }
        if head.session_id == NO_SESSION {
            self.forget();
        } else if was_full {
            self.id = head.session_id;
            self.epoch = 1;
        } else {
            self.epoch = self.epoch.checked_add(1).unwrap_or(1);
        }
        Ok(())
    }

    fn end(&mut self, was_full: bool) {
        if was_full {
            self.forget();
        } else {
            self.begin_anew();
        }
    }

    /// The next request is full, and the leader is told that the session is over if there was one.
    pub fn begin_anew(&mut self) {
        self.epoch = INITIAL_EPOCH;
    }

    /// The next request is full and knows of no session.
    fn forget(&mut self) {
        self.id = NO_SESSION;
        self.epoch = INITIAL_EPOCH;
    }

    /// The next full request begins behind this partition.
    pub fn begin_after(&mut self, key: &PartitionKey) {
        self.after = Some(key.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(offset: i64) -> Row {
        Row {
            offset,
            start_offset: 0,
            leader_epoch: 1,
            last_epoch: 1,
            generation: 0,
        }
    }

    fn wanted(rows: &[(&str, i32, i64)]) -> Vec<(PartitionKey, Row)> {
        rows.iter()
            .map(|(topic, partition, offset)| (PartitionKey::new(topic, *partition), row(*offset)))
            .collect()
    }

    fn head(session_id: i32, error_code: i16) -> ResponseHead {
        ResponseHead {
            throttle_time_ms: 0,
            error_code,
            session_id,
        }
    }

    fn names(session: &Session, named: &Named) -> Vec<String> {
        let rows = named.rows.iter();
        rows.map(|index| session.rows()[*index].0.to_string())
            .collect()
    }

    /// A session with the partitions a-0, a-1 and b-0, all at offset 0.
    fn begun() -> Session {
        let mut session = Session::new();
        let named = session.request(wanted(&[("a", 0, 0), ("a", 1, 0), ("b", 0, 0)]));
        assert_eq!((session.id(), session.epoch()), (0, 0));
        assert_eq!(names(&session, &named), ["a-0", "a-1", "b-0"]);
        session.answered(head(77, 0), 3, None).unwrap();
        assert_eq!((session.id(), session.epoch()), (77, 1));
        session
    }

    #[test]
    fn a_session_names_what_changed_came_and_left() {
        let mut session = begun();
        let same = session.request(wanted(&[("a", 0, 0), ("a", 1, 0), ("b", 0, 0)]));
        assert_eq!(same, Named::default());
        session.answered(head(77, 0), 0, None).unwrap();
        assert_eq!(session.epoch(), 2);
        let named = session.request(wanted(&[("a", 1, 5), ("aa", 3, 0), ("b", 0, 0)]));
        assert_eq!(names(&session, &named), ["a-1", "aa-3"]);
        assert_eq!(named.forgotten, [PartitionKey::new("a", 0)]);
        session.answered(head(77, 0), 0, None).unwrap();
        let named = session.request(wanted(&[("a", 0, 0)]));
        assert_eq!(names(&session, &named), ["a-0"]);
        assert_eq!(named.forgotten.len(), 3);
    }

    #[test]
    fn each_field_of_a_row_is_named_again_but_not_the_generation() {
        for (change, is_named) in [
            (row(9), true),
            (
                Row {
                    start_offset: 9,
                    ..row(0)
                },
                true,
            ),
            (
                Row {
                    leader_epoch: 9,
                    ..row(0)
                },
                true,
            ),
            (
                Row {
                    last_epoch: 9,
                    ..row(0)
                },
                true,
            ),
            (
                Row {
                    generation: 9,
                    ..row(0)
                },
                false,
            ),
        ] {
            let mut session = begun();
            let mut rows = wanted(&[("a", 0, 0), ("a", 1, 0), ("b", 0, 0)]);
            rows[1].1 = change;
            let named = session.request(rows);
            assert_eq!(!named.rows.is_empty(), is_named, "{change:?}");
            assert_eq!(session.find("a", 1).unwrap().1, change);
        }
    }

    #[test]
    fn what_ends_a_session_as_in_the_table_above() {
        let incremental = |head, answered, unknown| {
            let mut session = begun();
            session.request(wanted(&[("a", 0, 1)]));
            let result = session.answered(head, answered, unknown);
            (result, session.id(), session.epoch())
        };
        assert_eq!(
            incremental(head(0, 70), 0, None),
            (Err(Refused::SessionOver), 0, 0)
        );
        assert_eq!(
            incremental(head(0, 71), 0, None),
            (Err(Refused::SessionOver), 77, 0)
        );
        let (other, id, epoch) = incremental(head(0, -1), 0, None);
        assert!(matches!(other, Err(Refused::Invalid(_))));
        assert_eq!((id, epoch), (77, 0));
        let (extra, id, epoch) = incremental(head(77, 0), 1, Some("c-1"));
        assert!(matches!(extra, Err(Refused::Invalid(_))));
        assert_eq!((id, epoch), (77, 0));
        assert_eq!(incremental(head(0, 0), 1, None), (Ok(()), 0, 0));
        assert_eq!(incremental(head(77, 0), 1, None), (Ok(()), 77, 2));
    }

    #[test]
    fn a_full_answer_has_what_was_asked_for() {
        let full = |head, answered, unknown| {
            let mut session = begun();
            session.begin_anew();
            assert_eq!((session.id(), session.epoch()), (77, 0));
            session.request(wanted(&[("a", 0, 1), ("a", 1, 1)]));
            let result = session.answered(head, answered, unknown);
            (result.is_ok(), session.id(), session.epoch())
        };
        assert_eq!(full(head(78, 0), 2, None), (true, 78, 1));
        assert_eq!(full(head(78, 0), 1, None), (false, 0, 0));
        assert_eq!(full(head(78, 0), 3, Some("c-1")), (false, 0, 0));
        assert_eq!(full(head(0, 0), 2, None), (true, 0, 0));
        // A leader that refuses full requests is not asked again at once.
        let mut session = Session::new();
        session.request(wanted(&[("a", 0, 1)]));
        let refused = session.answered(head(0, 71), 0, None).unwrap_err();
        assert!(matches!(refused, Refused::Invalid(_)));
        let throttled = ResponseHead {
            throttle_time_ms: 9,
            ..head(0, 0)
        };
        let refused = session.answered(throttled, 0, None).unwrap_err();
        assert_eq!(refused, Refused::Throttled);
    }

    #[test]
    fn without_a_session_no_partition_is_always_first() {
        let mut session = Session::new();
        let all = wanted(&[("a", 0, 0), ("a", 1, 0), ("b", 0, 0)]);
        session.request(all.clone());
        session.answered(head(0, 0), 3, None).unwrap();
        for (after, first) in [("a-0", "a-1"), ("a-1", "b-0"), ("b-0", "a-0")] {
            let key = all.iter().find(|(key, _)| key.to_string() == after);
            session.begin_after(&key.unwrap().0);
            let named = session.request(all.clone());
            assert_eq!(names(&session, &named)[0], first);
            assert_eq!(named.rows.len(), 3);
        }
    }

    #[test]
    fn epochs_wrap_to_one() {
        let mut session = begun();
        session.epoch = i32::MAX;
        session.request(wanted(&[("a", 0, 1)]));
        session.answered(head(77, 0), 0, None).unwrap();
        assert_eq!(session.epoch(), 1);
    }
}

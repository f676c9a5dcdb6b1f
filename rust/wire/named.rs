//! The partitions that a Produce names, without its body, and those that were named of late.
//!
//! Clients name the same partitions again and again. Whoever makes something of the names, as Python
//! makes strings, keeps it beside the last few, and need not make it again.

use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;

use super::names::Names;
use super::produce::PartitionData;
use crate::checksum::crc32c;

/// Requests of more partitions are not kept: with the longest names an entry has 4 KB,
const PARTITIONS_MAX: usize = 16;
/// and all of them 1 MB.
const KEPT: usize = 256;

/// One partition of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Its topic in the names: the same for all partitions of a topic that follow each other.
    pub topic: Range<usize>,
    pub number: i32,
    pub has_records: bool,
}

/// The partitions of a Produce, in its order.
#[derive(Debug)]
pub struct Named {
    /// The topics' names, one after the other.
    names: Vec<u8>,
    partitions: Vec<Partition>,
}

impl Named {
    pub fn new(body: &[u8], asked: &[PartitionData]) -> Self {
        let mut names = Names::default();
        let partitions = asked.iter().map(|data| Partition {
            topic: names.copy(body, &data.topic),
            number: data.partition,
            has_records: has_records(data),
        });
        Self {
            partitions: partitions.collect(),
            names: names.into_bytes(),
        }
    }

    /// True if a request names the same, in the same order.
    fn is(&self, body: &[u8], asked: &[PartitionData]) -> bool {
        self.partitions.len() == asked.len()
            && self.partitions().zip(asked).all(|(known, data)| {
                known == (&body[data.topic.clone()], data.partition, has_records(data))
            })
    }

    pub fn len(&self) -> usize {
        self.partitions.len()
    }

    pub fn is_empty(&self) -> bool {
        self.partitions.is_empty()
    }

    /// Topic, number, and whether there are records.
    pub fn partitions(&self) -> impl Iterator<Item = (&[u8], i32, bool)> {
        let partitions = self.partitions.iter();
        partitions.map(|one| (self.topic(&one.topic), one.number, one.has_records))
    }

    /// The partitions of `range`, as far as there are any.
    pub fn some(&self, range: Range<usize>) -> &[Partition] {
        let stop = range.end.min(self.len());
        &self.partitions[range.start.min(stop)..stop]
    }

    /// The name at a place among the names. The decoder has checked that it is UTF-8.
    pub fn topic(&self, at: &Range<usize>) -> &[u8] {
        &self.names[at.clone()]
    }
}

impl AsRef<Named> for Named {
    fn as_ref(&self) -> &Named {
        self
    }
}

fn has_records(data: &PartitionData) -> bool {
    data.records.as_ref().is_some_and(|range| !range.is_empty())
}

/// The last things that were made of what requests name, one for each place.
pub struct Recent<T>(Mutex<[Option<Arc<T>>; KEPT]>);

impl<T: From<Named> + AsRef<Named>> Recent<T> {
    pub const fn new() -> Self {
        Self(Mutex::new([const { None }; KEPT]))
    }

    /// The thing that was made for an equal request if it is still kept, else one that is made now.
    pub fn of(&self, body: &[u8], asked: &[PartitionData]) -> Arc<T> {
        let Some(place) = place(body, asked) else {
            return Arc::new(T::from(Named::new(body, asked)));
        };
        if let Some(known) = self.0.lock()[place].as_ref()
            && known.as_ref().as_ref().is(body, asked)
        {
            return Arc::clone(known);
        }
        let made = Arc::new(T::from(Named::new(body, asked)));
        let replaced = self.0.lock()[place].replace(Arc::clone(&made));
        // Objects of Python, which it may hold, are not dropped under a lock.
        drop(replaced);
        made
    }
}

impl<T: From<Named> + AsRef<Named>> Default for Recent<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// The place of a request among those that are kept; None where it names nothing or too much.
fn place(body: &[u8], asked: &[PartitionData]) -> Option<usize> {
    let (first, others) = asked.split_first()?;
    if others.len() >= PARTITIONS_MAX {
        return None;
    }
    let topic = crc32c(&body[first.topic.clone()]);
    let hash = asked.iter().fold(topic, |hash, data| {
        hash.rotate_left(5).wrapping_add(data.partition as u32)
    });
    // The high bits are as good as the low ones, and numbers that follow each other get places that do.
    Some((hash ^ hash >> 16) as usize % KEPT)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A body that consists of names, and the partitions that a decoder finds in it.
    fn request(partitions: &[(&str, i32, Option<usize>)]) -> (Vec<u8>, Vec<PartitionData>) {
        let mut body = Vec::new();
        let mut last: Option<(&str, Range<usize>)> = None;
        let mut found = Vec::new();
        for &(topic, partition, records) in partitions {
            let topic = match &last {
                Some((name, range)) if *name == topic => range.clone(),
                _ => {
                    // Not at the same place as in the names.
                    body.push(b'.');
                    body.extend_from_slice(topic.as_bytes());
                    let range = body.len() - topic.len()..body.len();
                    last.insert((topic, range)).1.clone()
                }
            };
            found.push(PartitionData {
                topic,
                partition,
                records: records.map(|length| 0..length),
            });
        }
        (body, found)
    }

    fn named(partitions: &[(&str, i32, Option<usize>)]) -> Named {
        let (body, found) = request(partitions);
        Named::new(&body, &found)
    }

    #[test]
    fn a_request_is_named_in_its_order() {
        let named = named(&[
            ("a", 3, Some(1)),
            ("a", 1, Some(0)),
            ("b", 3, None),
            ("a", 3, Some(9)),
        ]);
        let partitions: Vec<_> = named.partitions().collect();
        let expected: [(&[u8], i32, bool); 4] = [
            (b"a", 3, true),
            (b"a", 1, false),
            (b"b", 3, false),
            (b"a", 3, true),
        ];
        assert_eq!(partitions, expected);
        assert_eq!(named.len(), 4);
        assert_eq!(
            named.names, b"aba",
            "a name is shared by those that follow each other"
        );
    }

    #[test]
    fn names_of_no_length_are_names() {
        let named = named(&[("", 0, None), ("a", 1, None), ("", 2, None), ("", 3, None)]);
        let topics: Vec<_> = named.partitions().map(|(topic, ..)| topic).collect();
        let expected: [&[u8]; 4] = [b"", b"a", b"", b""];
        assert_eq!(topics, expected);
        let [first, second, ..] = named.some(0..4) else {
            panic!("there are four");
        };
        assert_ne!(first.topic, second.topic);
    }

    #[test]
    fn pieces_end_where_the_request_ends() {
        let named = named(&[("a", 0, None), ("a", 1, None), ("a", 2, None)]);
        let numbers = |range: Range<usize>| -> Vec<i32> {
            named.some(range).iter().map(|one| one.number).collect()
        };
        assert_eq!(numbers(0..2), [0, 1]);
        assert_eq!(numbers(2..9), [2]);
        assert!(numbers(3..4).is_empty());
        assert!(numbers(7..9).is_empty());
        assert!(Named::new(b"", &[]).is_empty());
    }

    #[test]
    fn an_equal_request_gets_what_was_made_for_the_first() {
        let recent = Recent::<Named>::new();
        let (body, asked) = request(&[("a", 0, Some(1)), ("b", 0, Some(1))]);
        let first = recent.of(&body, &asked);
        let (others, of_others) = request(&[("a", 0, Some(70)), ("b", 0, Some(2))]);
        assert!(Arc::ptr_eq(&first, &recent.of(&others, &of_others)));
    }

    #[test]
    fn another_request_gets_its_own() {
        let recent = Recent::<Named>::new();
        let (body, asked) = request(&[("a", 0, Some(1)), ("b", 0, Some(1))]);
        let first = recent.of(&body, &asked);
        for other in [
            [("a", 0, Some(1)), ("b", 1, Some(1))],
            [("a", 0, Some(1)), ("c", 0, Some(1))],
            [("b", 0, Some(1)), ("a", 0, Some(1))],
            [("a", 0, Some(1)), ("b", 0, Some(0))],
            [("a", 0, None), ("b", 0, Some(1))],
        ] {
            let (body, asked) = request(&other);
            let made = recent.of(&body, &asked);
            assert!(!Arc::ptr_eq(&first, &made), "{other:?}");
            assert!(made.is(&body, &asked), "{other:?}");
        }
        let (body, asked) = request(&[("a", 0, Some(1))]);
        assert!(
            !Arc::ptr_eq(&first, &recent.of(&body, &asked)),
            "the first of both"
        );
    }

    #[test]
    fn of_two_at_one_place_the_newer_is_kept() {
        let recent = Recent::<Named>::new();
        let one = |number| request(&[("a", number, Some(1))]);
        let (body, asked) = one(0);
        let at = place(&body, &asked);
        let same_place = |number: &i32| {
            let (body, asked) = one(*number);
            place(&body, &asked) == at
        };
        let number = (1..)
            .find(same_place)
            .expect("there are fewer places than numbers");
        let first = recent.of(&body, &asked);
        let (other, asks_other) = one(number);
        let second = recent.of(&other, &asks_other);
        assert!(Arc::ptr_eq(&second, &recent.of(&other, &asks_other)));
        assert!(!Arc::ptr_eq(&first, &recent.of(&body, &asked)));
    }

    #[test]
    fn numbers_that_follow_each_other_have_places_of_their_own() {
        let places: std::collections::HashSet<_> = (0..KEPT as i32)
            .map(|number| {
                let (body, asked) = request(&[("a", number, Some(1))]);
                place(&body, &asked)
            })
            .collect();
        assert!(places.len() > KEPT / 2, "{}", places.len());
    }

    #[test]
    fn large_requests_and_empty_ones_are_not_kept() {
        let many = |count| {
            (0..count)
                .map(|number| ("a", number, None))
                .collect::<Vec<_>>()
        };
        let recent = Recent::<Named>::new();
        for (count, is_kept) in [(0, false), (1, true), (16, true), (17, false)] {
            let (body, asked) = request(&many(count));
            let first = recent.of(&body, &asked);
            let again = recent.of(&body, &asked);
            assert_eq!(Arc::ptr_eq(&first, &again), is_kept, "{count} partitions");
            assert_eq!(again.len(), count as usize);
        }
    }
}

//! From bytes to frames, without I/O: what of a connection's bytes is kept between two reads.
//!
//! All connections share one read buffer, and most reads bring whole small frames: they are cut from the shared buffer one by one, as each
//! may start, each into pooled memory of its size. What is left at the end of a visit is kept in one of three forms:
//!
//! * up to three bytes of a length (`head`);
//! * a frame of known and permitted length that is not complete (`partial`): memory of its size, into which the next reads go directly;
//! * bytes that contain at least one whole frame which may not start yet (`parked`). Nothing is read while there are any, so that what one
//!   connection can park is one read.

use std::sync::Arc;

use super::budget::{Account, Moves};
use super::frames::{Buffer, NoMemory, Pool};
use super::limits::{FIRST_BYTES_MAX, SECOND_BYTES_MAX};

/// Bytes of the length before each frame.
const LENGTH_BYTES: usize = 4;

struct Partial {
    /// Of the frame's length, or shorter if the frame is large and has not got that far.
    buffer: Buffer,
    filled: usize,
    length: usize,
    moves: Moves,
    /// What the frame had before it got its present memory.
    behind: Option<Behind>,
}

/// The beginning of a large frame in its former memory. It is moved as more comes in, each time about as much as came: tens of megabytes at
/// once would take the loop for as many milliseconds, most of them for the pages.
struct Behind {
    buffer: Buffer,
    moved: usize,
}

impl Partial {
    /// What its memory grows to next: four times as much, or all where that is not much more. So what is behind is less than what is to come.
    fn next_length(&self) -> usize {
        if self.filled < SECOND_BYTES_MAX {
            return self.length.min(SECOND_BYTES_MAX);
        }
        let next = 4 * self.filled;
        if self.length <= 2 * next {
            self.length
        } else {
            next
        }
    }

    /// Whether what it has so far is moved in pieces.
    fn is_moved_later(&self) -> bool {
        self.filled > SECOND_BYTES_MAX
    }

    fn grow(&mut self, length: usize, account: Account) -> Result<(), NoMemory> {
        self.catch_up(self.filled);
        if !self.is_moved_later() {
            return self.buffer.grow(length, self.filled, account);
        }
        let larger = self.buffer.larger(length, account)?;
        self.behind = Some(Behind {
            buffer: std::mem::replace(&mut self.buffer, larger),
            moved: 0,
        });
        Ok(())
    }

    /// More has come in: moves its part of what is behind, and the last of it with the last byte that there is memory for.
    fn advance(&mut self, count: usize) {
        self.filled += count;
        let Some(behind) = &self.behind else {
            return;
        };
        let (all, to_come) = (behind.buffer.len(), self.buffer.len() - behind.buffer.len());
        let came = self.filled - all;
        let part = if came >= to_come {
            all
        } else {
            (came as u128 * all as u128 / to_come as u128) as usize
        };
        self.catch_up(part);
    }

    /// Moves what is behind up to `end`.
    fn catch_up(&mut self, end: usize) {
        if let Some(behind) = &mut self.behind {
            let end = end.min(behind.buffer.len());
            self.buffer[behind.moved..end].copy_from_slice(&behind.buffer[behind.moved..end]);
            behind.moved = end;
            if end == behind.buffer.len() {
                self.behind = None;
            }
        }
    }
}

struct Parked {
    buffer: Buffer,
    start: usize,
}

/// What comes next on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// No whole frame.
    Nothing,
    /// A whole frame; its API key (-1 if it has less than two bytes) and its length.
    Frame { api_key: i16, length: usize },
    /// A length that is negative or over the limit.
    Bad(i32),
}

/// The shared read buffer's bytes that belong to the connection being visited.
pub struct Fresh<'a> {
    pub bytes: &'a [u8],
    pub start: &'a mut usize,
}

/// The unstarted input of one connection.
#[derive(Default)]
pub struct Input {
    head: [u8; LENGTH_BYTES],
    head_length: usize,
    partial: Option<Partial>,
    parked: Option<Parked>,
}

fn key_of(frame: &[u8]) -> i16 {
    frame
        .first_chunk()
        .map_or(-1, |bytes| i16::from_be_bytes(*bytes))
}

/// Looks at the next frame in `bytes`.
fn look(bytes: &[u8], frame_bytes_max: usize) -> Next {
    let Some(length) = bytes.first_chunk() else {
        return Next::Nothing;
    };
    let length = i32::from_be_bytes(*length);
    match usize::try_from(length) {
        Ok(size) if size <= frame_bytes_max => match bytes.get(LENGTH_BYTES..LENGTH_BYTES + size) {
            Some(frame) => Next::Frame {
                api_key: key_of(frame),
                length: size,
            },
            None => Next::Nothing,
        },
        _ => Next::Bad(length),
    }
}

impl Input {
    /// Whether there is a frame that was read and not started.
    pub fn has_parked(&self) -> bool {
        self.parked.is_some() || self.is_complete()
    }

    fn is_complete(&self) -> bool {
        self.partial
            .as_ref()
            .is_some_and(|partial| partial.filled == partial.length)
    }

    /// Whether nothing at all is kept.
    pub fn is_empty(&self) -> bool {
        self.head_length == 0 && self.partial.is_none() && self.parked.is_none()
    }

    /// The length of the frame that has begun and is not complete.
    pub fn receiving(&self) -> Option<usize> {
        let partial = self.partial.as_ref()?;
        (partial.filled < partial.length).then_some(partial.length)
    }

    /// How much of the frame that has begun is to come.
    pub fn missing(&self) -> Option<usize> {
        let partial = self.partial.as_ref()?;
        Some(partial.length - partial.filled)
    }

    /// Bytes of frames that are kept here.
    pub fn held(&self) -> usize {
        let partial = self.partial.as_ref().map(|partial| partial.buffer.len());
        let parked = self.parked.as_ref().map(|parked| parked.buffer.len());
        partial.unwrap_or(0) + parked.unwrap_or(0)
    }

    /// How the frame that has begun comes in.
    pub fn moves(&mut self) -> Option<&mut Moves> {
        let partial = self.partial.as_mut()?;
        (partial.filled < partial.length).then_some(&mut partial.moves)
    }

    /// By how much the memory of the frame that has begun must grow before more of it is received.
    pub fn growth(&self) -> usize {
        match &self.partial {
            Some(partial)
                if partial.filled == partial.buffer.len() && partial.filled < partial.length =>
            {
                // Both are there until all is moved.
                let has = if partial.is_moved_later() {
                    0
                } else {
                    partial.buffer.len()
                };
                partial.next_length() - has
            }
            _ => 0,
        }
    }

    /// Lets it grow by that, at the cost of `account`. In the lane there is room for all of it.
    pub fn grow(&mut self, account: Account) -> Result<(), NoMemory> {
        if let Some(partial) = &mut self.partial {
            let length = match account {
                Account::Frames => partial.next_length(),
                Account::Lane => partial.length,
            };
            partial.grow(length, account)?;
        }
        Ok(())
    }

    /// Where the next bytes go before any others: the rest of a frame that has begun, or a part of it; and whether it is all of the rest.
    pub fn direct(&mut self) -> Option<(&mut [u8], bool)> {
        let partial = self.partial.as_mut()?;
        let is_rest = partial.buffer.len() == partial.length;
        Some((&mut partial.buffer[partial.filled..], is_rest))
    }

    /// `count` bytes came into `direct()`.
    pub fn advance(&mut self, count: usize, now_ms: u64) {
        if let Some(partial) = &mut self.partial {
            partial.advance(count);
            partial.moves.add(count as u64, now_ms);
        }
    }

    /// The bytes of an incomplete length.
    pub fn head(&self) -> &[u8] {
        &self.head[..self.head_length]
    }

    /// Takes the bytes of an incomplete length, to be put in front of what is read next.
    pub fn take_head(&mut self, to: &mut [u8]) -> usize {
        let length = std::mem::take(&mut self.head_length);
        to[..length].copy_from_slice(&self.head[..length]);
        length
    }

    /// What comes next: a large frame that is complete, then what was parked, then what was just read.
    pub fn peek(&self, fresh: &Fresh<'_>, frame_bytes_max: usize) -> Next {
        if self.is_complete() {
            let frame = self.partial.as_ref().map(|partial| &*partial.buffer);
            let frame = frame.unwrap_or_default();
            return Next::Frame {
                api_key: key_of(frame),
                length: frame.len(),
            };
        }
        match &self.parked {
            Some(parked) => look(&parked.buffer[parked.start..], frame_bytes_max),
            None => look(&fresh.bytes[*fresh.start..], frame_bytes_max),
        }
    }

    /// Takes the frame that `peek` saw, `length` bytes long, without its length field.
    pub fn take(
        &mut self,
        length: usize,
        fresh: &mut Fresh<'_>,
        pool: &Arc<Pool>,
    ) -> Result<Buffer, NoMemory> {
        if self.is_complete()
            && let Some(partial) = self.partial.take()
        {
            return Ok(partial.buffer);
        }
        let mut buffer = pool.take(length, Account::Frames)?;
        match &mut self.parked {
            Some(parked) => {
                let start = parked.start + LENGTH_BYTES;
                buffer.copy_from_slice(&parked.buffer[start..start + length]);
                parked.start = start + length;
            }
            None => {
                let start = *fresh.start + LENGTH_BYTES;
                buffer.copy_from_slice(&fresh.bytes[start..start + length]);
                *fresh.start = start + length;
            }
        }
        Ok(buffer)
    }

    /// Keeps what a visit left. A bad length stays where `peek` finds it.
    pub fn keep(
        &mut self,
        fresh: &mut Fresh<'_>,
        frame_bytes_max: usize,
        pool: &Arc<Pool>,
        now_ms: u64,
    ) -> Result<(), NoMemory> {
        let rest = &fresh.bytes[*fresh.start..];
        *fresh.start = fresh.bytes.len();
        if self.is_complete() {
            // The large frame may not start yet; what came with it waits behind it.
            self.park(rest, pool)?;
        } else if let Some(parked) = self.parked.take() {
            let left = &parked.buffer[parked.start..];
            if look(left, frame_bytes_max) == Next::Nothing {
                self.keep_incomplete(left, pool, now_ms)?;
            } else {
                self.parked = Some(parked);
            }
        } else if look(rest, frame_bytes_max) == Next::Nothing {
            if self.partial.is_none() {
                self.keep_incomplete(rest, pool, now_ms)?;
            }
        } else {
            self.park(rest, pool)?;
        }
        Ok(())
    }

    fn park(&mut self, bytes: &[u8], pool: &Arc<Pool>) -> Result<(), NoMemory> {
        if bytes.is_empty() || self.parked.is_some() {
            return Ok(());
        }
        let mut buffer = pool.take(bytes.len(), Account::Frames)?;
        buffer.copy_from_slice(bytes);
        self.parked = Some(Parked { buffer, start: 0 });
        Ok(())
    }

    /// `bytes` begin a frame of permitted length and do not end it.
    fn keep_incomplete(
        &mut self,
        bytes: &[u8],
        pool: &Arc<Pool>,
        now_ms: u64,
    ) -> Result<(), NoMemory> {
        let Some((length, begun)) = bytes.split_first_chunk::<LENGTH_BYTES>() else {
            self.head[..bytes.len()].copy_from_slice(bytes);
            self.head_length = bytes.len();
            return Ok(());
        };
        let length = i32::from_be_bytes(*length).max(0) as usize;
        let mut buffer = pool.take(length.min(FIRST_BYTES_MAX), Account::Frames)?;
        buffer[..begun.len()].copy_from_slice(begun);
        self.partial = Some(Partial {
            buffer,
            filled: begun.len(),
            length,
            moves: Moves::begin(now_ms),
            behind: None,
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::Wake;
    use crate::net::budget::{Bounds, Budget};
    use proptest::prelude::*;

    const MAX: usize = 1000;

    fn pool() -> Arc<Pool> {
        let wake = Arc::new(Wake::new().unwrap());
        let bounds = Bounds::new(1 << 30, 1 << 20);
        Arc::new(Pool::new(Arc::new(Budget::new(bounds, wake))))
    }

    /// Feeds `bytes` as a socket would, `chunk` at a time, starting at most `per_visit` frames a visit.
    fn feed(bytes: &[u8], chunk: usize, per_visit: usize) -> (Vec<Vec<u8>>, Option<i32>) {
        let (pool, mut input, mut frames) = (pool(), Input::default(), Vec::new());
        let mut rest = bytes;
        let mut shared = vec![0; MAX + 10 + LENGTH_BYTES];
        loop {
            let (mut start, mut end) = (0, 0);
            if !input.has_parked() {
                if rest.is_empty() {
                    return (frames, None);
                }
                let mut left = chunk.min(rest.len());
                end = input.take_head(&mut shared);
                if let Some((space, is_rest)) = input.direct() {
                    assert!(is_rest);
                    let count = left.min(space.len());
                    space[..count].copy_from_slice(&rest[..count]);
                    input.advance(count, 0);
                    (rest, left) = (&rest[count..], left - count);
                }
                shared[end..end + left].copy_from_slice(&rest[..left]);
                (rest, end) = (&rest[left..], end + left);
            }
            let mut fresh = Fresh {
                bytes: &shared[..end],
                start: &mut start,
            };
            for _ in 0..per_visit {
                match input.peek(&fresh, MAX) {
                    Next::Nothing => break,
                    Next::Frame { length, .. } => {
                        frames.push(input.take(length, &mut fresh, &pool).unwrap().to_vec());
                    }
                    Next::Bad(length) => return (frames, Some(length)),
                }
            }
            input.keep(&mut fresh, MAX, &pool, 0).unwrap();
        }
    }

    fn stream(frames: &[Vec<u8>]) -> Vec<u8> {
        frames
            .iter()
            .flat_map(|frame| [&(frame.len() as i32).to_be_bytes()[..], frame].concat())
            .collect()
    }

    #[test]
    fn frames_come_out_whatever_the_reads_bring() {
        let frames: Vec<Vec<u8>> = [0, 1, 2, 100, MAX, 3, 999, 0, 0, 500]
            .iter()
            .enumerate()
            .map(|(index, &length)| vec![index as u8; length])
            .collect();
        let bytes = stream(&frames);
        for chunk in (1..20).chain([100, MAX - 1, MAX, MAX + 4]) {
            for per_visit in [1, 2, 100] {
                assert_eq!(feed(&bytes, chunk, per_visit), (frames.clone(), None));
            }
        }
    }

    #[test]
    fn a_bad_length_is_seen_before_anything_is_allocated() {
        for length in [-1, i32::MIN, MAX as i32 + 1, i32::MAX] {
            let mut bytes = stream(&[vec![1; 5]]);
            bytes.extend_from_slice(&length.to_be_bytes());
            bytes.extend_from_slice(&[7; 50]);
            for chunk in [1, 3, 9, 100] {
                assert_eq!(feed(&bytes, chunk, 9), (vec![vec![1; 5]], Some(length)));
            }
        }
    }

    #[test]
    fn a_huge_frame_takes_memory_as_it_comes() {
        let (pool, mut input) = (pool(), Input::default());
        let length = 10 * SECOND_BYTES_MAX + 5;
        let mut begun = (length as i32).to_be_bytes().to_vec();
        begun.push(9);
        let mut start = 0;
        let mut fresh = Fresh {
            bytes: &begun,
            start: &mut start,
        };
        input.keep(&mut fresh, length, &pool, 0).unwrap();
        let (mut received, mut sizes) = (1, Vec::new());
        while !input.is_complete() {
            if input.growth() > 0 {
                input.grow(Account::Frames).unwrap();
            }
            let (space, is_rest) = input.direct().unwrap();
            assert_eq!(is_rest, received + space.len() == length);
            let is_new = sizes.last() != Some(&(received + space.len()));
            if is_new {
                sizes.push(received + space.len());
            }
            // Some at a time, as the socket brings it.
            let count = space.len().min(300_001);
            for (index, byte) in space[..count].iter_mut().enumerate() {
                *byte = ((received + index) >> 20) as u8;
            }
            let moved = |input: &Input| {
                let partial = input.partial.as_ref().unwrap();
                partial.behind.as_ref().map_or(0, |behind| behind.moved)
            };
            let before = moved(&input);
            input.advance(count, 0);
            assert!(moved(&input) <= before + count, "no more than came");
            received += count;
        }
        let second = SECOND_BYTES_MAX;
        assert_eq!(
            sizes,
            [FIRST_BYTES_MAX, second, 4 * second, length],
            "by four at most, once it is more than a usual batch"
        );
        let mut start = 0;
        let mut none = Fresh {
            bytes: &[],
            start: &mut start,
        };
        let frame = input.take(length, &mut none, &pool).unwrap();
        assert_eq!((frame.len(), frame[0]), (length, 9));
        for index in 1..length {
            assert_eq!(frame[index], (index >> 20) as u8, "{index}");
        }
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..3000), chunk in 1..100usize, per_visit in 1..5usize) {
            feed(&bytes, chunk, per_visit);
        }

        #[test]
        fn any_cutting_gives_the_frames(sizes in prop::collection::vec(0..=MAX, 0..20), chunk in 1..=MAX, per_visit in 1..5usize) {
            let frames: Vec<Vec<u8>> = sizes.iter().map(|&size| vec![size as u8; size]).collect();
            prop_assert_eq!(feed(&stream(&frames), chunk, per_visit), (frames, None));
        }
    }
}

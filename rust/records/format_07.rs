//! Messages as Kafka 0.7 stored and sent them, which had neither keys nor numbers: a message was known by its byte position.
//!
//! | at | bytes | field |
//! |---:|---:|---|
//! | 0 | 4 | length: the bytes that follow this field |
//! | 4 | 1 | magic: 0 or 1 |
//! | 5 | 1 | attributes: bits 0-1 codec (0 none, 1 gzip, 2 snappy); only if magic is 1 |
//! | | 4 | crc: CRC-32 of the payload |
//! | | | payload: of a compressed message, messages of the same form |
//!
//! There were few clients and no rule against a compressed message inside a compressed one, so some depth is allowed.

use super::compression::{Codec, Decompressor};
use super::error::{ErrorKind, RecordError};
use crate::checksum::crc32;

const MAGIC: usize = 4;
const CODEC_MASK: u8 = 3;
/// Compressed messages inside compressed messages.
const DEPTH_MAX: usize = 4;

/// One message, as it lies there.
struct Message<'a> {
    codec: Codec,
    payload: &'a [u8],
    size: usize,
}

fn read(bytes: &[u8], message_bytes_max: usize) -> Result<Message<'_>, RecordError> {
    let incomplete = |needed: usize| {
        let problem = format!("needs {needed} bytes, {} are there", bytes.len());
        RecordError::new(ErrorKind::Incomplete, "message", 0, problem)
    };
    let Some((length, rest)) = bytes.split_first_chunk::<4>() else {
        return Err(incomplete(4));
    };
    let length = i32::from_be_bytes(*length);
    let size = match usize::try_from(length) {
        Ok(length) if length > message_bytes_max => {
            let problem = format!("{length} bytes, the limit is {message_bytes_max}");
            return Err(RecordError::new(ErrorKind::TooLarge, "length", 0, problem));
        }
        Ok(length) if length > 4 => length,
        _ => {
            let problem = format!("{length} is less than the fixed fields");
            return Err(RecordError::corrupt("length", 0, problem));
        }
    };
    let Some(message) = rest.get(..size) else {
        return Err(incomplete(4 + size));
    };
    let (codec, fields) = match message[0] {
        0 => (Codec::None, 1),
        1 => match Codec::from_id((message[1] & CODEC_MASK) as i8) {
            Some(codec @ (Codec::None | Codec::Gzip | Codec::Snappy)) => (codec, 2),
            _ => {
                let problem = format!("codec {} is unknown", message[1] & CODEC_MASK);
                let kind = ErrorKind::UnsupportedCompression;
                return Err(RecordError::new(kind, "attributes", MAGIC + 1, problem));
            }
        },
        magic => {
            let problem = format!("{magic} is not a format of Kafka 0.7");
            return Err(RecordError::corrupt("magic", MAGIC, problem));
        }
    };
    let Some((stored, payload)) = message[fields..].split_first_chunk::<4>() else {
        let problem = format!("{length} is less than the fixed fields");
        return Err(RecordError::corrupt("length", 0, problem));
    };
    let (stored, computed) = (u32::from_be_bytes(*stored), crc32(payload));
    if stored != computed {
        let problem =
            format!("the stored checksum is {stored:#010x}, the payload has {computed:#010x}");
        return Err(RecordError::corrupt("crc", MAGIC + fields, problem));
    }
    Ok(Message {
        codec,
        payload,
        size: 4 + size,
    })
}

/// Reads messages from buffers that follow each other.
pub struct Reader {
    /// The most that one message may take, also unpacked.
    pub message_bytes_max: usize,
    decompressor: Decompressor,
}

impl Reader {
    pub fn new(message_bytes_max: usize) -> Self {
        Self {
            message_bytes_max,
            decompressor: Decompressor::default(),
        }
    }

    /// Hands every payload of the whole messages in `buffer` to `take`, and gives where they end. With it comes what is wrong there, if
    /// something is: `Incomplete` where the buffer ends inside a message.
    pub fn messages(
        &mut self,
        buffer: &[u8],
        take: &mut dyn FnMut(&[u8]),
    ) -> (usize, Option<RecordError>) {
        let mut at = 0;
        while at < buffer.len() {
            let message = match read(&buffer[at..], self.message_bytes_max) {
                Ok(message) => message,
                Err(error) => return (at, Some(error.moved_by(at))),
            };
            let size = message.size;
            // All of a compressed message or nothing: going on later starts before or behind it.
            let mut payloads = Vec::new();
            match self.unpack(&message, 0, &mut payloads) {
                Ok(()) => payloads.iter().for_each(|payload| take(payload)),
                Err(error) => return (at, Some(error.moved_by(at))),
            }
            at += size;
        }
        (at, None)
    }

    fn unpack(
        &mut self,
        message: &Message<'_>,
        depth: usize,
        payloads: &mut Vec<Vec<u8>>,
    ) -> Result<(), RecordError> {
        if message.codec == Codec::None {
            payloads.push(message.payload.to_vec());
            return Ok(());
        }
        if depth == DEPTH_MAX {
            let problem = format!("compressed more than {DEPTH_MAX} times");
            return Err(RecordError::corrupt("attributes", MAGIC + 1, problem));
        }
        let mut set = Vec::new();
        self.decompressor.decompress(
            message.codec,
            message.payload,
            self.message_bytes_max,
            &mut set,
        )?;
        let mut at = 0;
        while at < set.len() {
            let inside = |mut error: RecordError| {
                error.position += at;
                error.in_decompressed = true;
                if error.is_incomplete() {
                    error.kind = ErrorKind::Corrupt;
                }
                error
            };
            let inner = read(&set[at..], self.message_bytes_max).map_err(inside)?;
            self.unpack(&inner, depth + 1, payloads)?;
            at += inner.size;
        }
        Ok(())
    }

    /// The first place from `from` on where a whole message starts, and another one or nothing follows it.
    pub fn find(&mut self, buffer: &[u8], from: usize) -> Option<usize> {
        (from..buffer.len()).find(|at| {
            let Ok(message) = read(&buffer[*at..], self.message_bytes_max) else {
                return false;
            };
            let next = &buffer[at + message.size..];
            match read(next, self.message_bytes_max) {
                Ok(_) => true,
                Err(error) => error.is_incomplete(),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::Compressor;
    use proptest::prelude::*;

    fn message(magic: u8, codec: Codec, payload: &[u8]) -> Vec<u8> {
        let mut fields = vec![magic];
        if magic == 1 {
            fields.push(codec as u8);
        }
        fields.extend_from_slice(&crc32(payload).to_be_bytes());
        fields.extend_from_slice(payload);
        [&(fields.len() as u32).to_be_bytes()[..], &fields].concat()
    }

    fn packed(codec: Codec, messages: &[u8]) -> Vec<u8> {
        let mut payload = Vec::new();
        Compressor::default().compress(codec, None, messages, &mut payload);
        message(1, codec, &payload)
    }

    fn all(buffer: &[u8]) -> (Vec<Vec<u8>>, usize, Option<RecordError>) {
        let mut seen = Vec::new();
        let take = &mut |payload: &[u8]| seen.push(payload.to_vec());
        let (end, error) = Reader::new(1 << 20).messages(buffer, take);
        (seen, end, error)
    }

    #[test]
    fn messages_of_both_magics_and_nested_sets() {
        let (a, b) = (message(0, Codec::None, b"a"), message(1, Codec::None, b""));
        let inner = packed(Codec::Snappy, &[&a[..], &b].concat());
        let outer = packed(Codec::Gzip, &[&inner[..], &a].concat());
        let buffer = [&a[..], &outer, &b].concat();
        let (seen, end, error) = all(&buffer);
        assert_eq!(seen, [&b"a"[..], b"a", b"", b"a", b""]);
        assert_eq!((end, error), (buffer.len(), None));
    }

    #[test]
    fn damage_is_named_with_its_place_and_what_is_before_it_is_read() {
        let good = message(1, Codec::None, b"good");
        let n = good.len();
        let cases: [(usize, u8, &str, usize); 5] = [
            (0, 0xff, "length", n),
            (3, 4, "length", n),
            (4, 7, "magic", n + 4),
            (5, 3, "attributes", n + 5),
            (n - 1, 0, "crc", n + 6),
        ];
        for (at, byte, field, position) in cases {
            let mut buffer = [&good[..], &good, &good].concat();
            buffer[n + at] = byte;
            let (seen, end, error) = all(&buffer);
            let error = error.unwrap();
            assert_eq!((seen.len(), end), (1, n), "{error}");
            assert_eq!((error.field, error.position), (field, position), "{error}");
            assert_eq!(Reader::new(1 << 20).find(&buffer, n + 1), Some(2 * n));
        }
        for cut in 1..n {
            let (_, end, error) = all(&[&good[..], &good[..cut]].concat());
            assert!(end == n && error.unwrap().is_incomplete());
        }
        let mut deep = good.clone();
        for _ in 0..=DEPTH_MAX {
            deep = packed(Codec::Gzip, &deep);
        }
        assert_eq!(all(&deep).2.unwrap().field, "attributes");
        let bomb = packed(Codec::Gzip, &vec![0; 2 << 20]);
        assert_eq!(all(&bomb).2.unwrap().kind, ErrorKind::TooLarge);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(mut buffer in prop::collection::vec(any::<u8>(), 0..300), inner in any::<bool>()) {
            let _ = all(&buffer);
            if inner {
                buffer = packed(Codec::Gzip, &buffer);
                let _ = all(&buffer);
            }
            let _ = Reader::new(1000).find(&buffer, 1);
        }
    }
}

//! Offsets and times at both ends of their range, in every format, through everything that reads or makes batches: a value, or an error that
//! names the field, and never arithmetic that overflows.

use super::super::batch::{OFFSET_MAX, is_offset};
use super::super::message_set::{CRC, MAGIC, crc};
use super::super::rewrite::{rewrite, rewrite_empty, rewrite_messages};
use super::*;

const NONE: u32 = u32::MAX;
const OFFSETS: [i64; 16] = [
    i64::MIN,
    i64::MIN + 1,
    -OFFSET_MAX - 1,
    -OFFSET_MAX,
    -2,
    -1,
    0,
    1,
    1 << 31,
    OFFSET_MAX - 1,
    OFFSET_MAX,
    OFFSET_MAX + 1,
    i64::MAX - (1 << 31),
    i64::MAX - 2,
    i64::MAX - 1,
    i64::MAX,
];
const TIMES: [i64; 7] = [i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX - 1, i64::MAX];
const DELTAS: [i32; 6] = [i32::MIN, -1, 0, 1, i32::MAX - 1, i32::MAX];

/// A batch of two records: at its base, and at these deltas.
fn batch(header: BatchHeader, offset_delta: i32, timestamp_delta: i64) -> Vec<u8> {
    let mut records = Vec::new();
    for (offset_delta, timestamp_delta) in [(0, 0), (offset_delta, timestamp_delta)] {
        let mut body = vec![0];
        varint::write_i64(&mut body, timestamp_delta);
        varint::write_i32(&mut body, offset_delta);
        // No key, a value of one byte, no headers.
        body.extend([1, 2, b'v', 0]);
        varint::write_i32(&mut records, body.len() as i32);
        records.extend(body);
    }
    let mut batch = vec![0; HEADER_BYTES];
    let codec = header.compression().unwrap();
    Compressor::default().compress(codec, None, &records, &mut batch);
    header.write(&mut batch);
    set_length(&mut batch);
    seal(&mut batch);
    batch
}

fn message(magic: i8, codec: Codec, offset: i64, timestamp_ms: i64, value: &[u8]) -> Vec<u8> {
    let mut builder = MessageBuilder::new(magic, Codec::None, None).unwrap();
    builder.append(0, timestamp_ms, None, Some(value)).unwrap();
    let mut message = builder.finish(&mut Compressor::default());
    message[..8].copy_from_slice(&offset.to_be_bytes());
    message[MAGIC + 1] = codec as u8;
    let crc = crc(&message);
    message[CRC..MAGIC].copy_from_slice(&crc.to_be_bytes());
    message
}

/// A packed set of two messages.
fn set(magic: i8, outer: i64, inner: [i64; 2], times: [i64; 2]) -> Vec<u8> {
    let plain = |at: usize| message(magic, Codec::None, inner[at], times[at], b"v");
    let mut packed = Vec::new();
    let messages = [plain(0), plain(1)].concat();
    Compressor::default().compress_set(Codec::Gzip, magic, &messages, &mut packed);
    message(magic, Codec::Gzip, outer, times[1], &packed)
}

/// Everything that takes a buffer. What it makes of it is the other tests' matter.
fn through_everything(buffer: &[u8]) {
    let (limits, mut scratch) = (limits(), Scratch::default());
    let _ = check(buffer);
    let _ = validate_sent(buffer, &limits, &mut scratch).map(|seen| seen.check_produced());
    let _ = validate_produced(buffer, &limits, &mut scratch);
    if let Ok(header) = BatchHeader::read(buffer) {
        assert!(header.last_offset() < i64::MAX);
        let _ = header.last_sequence();
    }
    for offset in OFFSETS {
        for magic in [0, 1] {
            let wanted = Wanted {
                magic,
                first_offset: offset,
                bytes_max: usize::MAX,
            };
            let _ = down_convert(buffer, &wanted, &limits, &mut scratch);
        }
        for join_bytes in [0, 1 << 20] {
            let mut mirror = Mirror::new(MirrorOptions {
                join_bytes,
                ..MirrorOptions::default()
            });
            let _ = mirror.copy(buffer, offset, AbortedTransactions::default());
        }
        for timestamp_unit in [TimestampUnit::Milliseconds, TimestampUnit::Microseconds] {
            let mut decoder = ColumnDecoder::new(ColumnOptions {
                timestamp_unit,
                start_offset: offset,
                limits,
                ..ColumnOptions::default()
            });
            let aborted = [AbortedTransaction {
                producer_id: 1,
                first_offset: offset,
            }];
            decoder.start_buffer(Some(&aborted));
            let _ = decoder.decode(buffer);
        }
    }
    for batch in Batches::new(buffer).map_while(Result::ok) {
        let Ok(opened) = scratch.open(batch.bytes, &batch.header, &limits) else {
            continue;
        };
        let (compressor, out) = (&mut Compressor::default(), &mut Vec::new());
        if batch.header.is_message() {
            let _ = rewrite_messages(&batch.header, &opened.header, opened.records, compressor);
        } else {
            let time = batch.header.max_timestamp;
            let _ = rewrite(&batch.header, opened.records, 2, time, compressor, out);
            let _ = rewrite_empty(&batch.header, out);
        }
    }
}

fn check_refused(buffer: &[u8], offset: i64, field: &str) {
    match (decode(buffer), is_offset(offset)) {
        (Err(error), false) => assert_eq!((error.field, error.code()), (field, 87), "{error}"),
        (Ok(records), false) => panic!("{offset} is read as {records:?}"),
        (_, true) => {}
    }
}

#[test]
fn batches_at_the_ends_of_their_range() {
    for (base_offset, codec) in OFFSETS
        .into_iter()
        .zip([Codec::None, Codec::Gzip].repeat(8))
    {
        for base_timestamp in TIMES {
            for (last_offset_delta, delta) in
                DELTAS.map(|last| DELTAS.map(|one| (last, one))).concat()
            {
                let header = BatchHeader {
                    base_offset,
                    batch_length: 0,
                    leader_epoch: i32::MAX,
                    magic: 2,
                    crc: 0,
                    attributes: codec as i16,
                    last_offset_delta,
                    base_timestamp,
                    max_timestamp: base_timestamp,
                    producer_id: i64::MAX,
                    producer_epoch: i16::MAX,
                    base_sequence: i32::MAX,
                    record_count: 2,
                };
                let timestamp_delta = i64::from(delta).wrapping_mul(1 << 33);
                let buffer = batch(header, delta, timestamp_delta);
                check_refused(&buffer, base_offset, "base_offset");
                // Whatever the two times are, they are read as they were written.
                if let Ok(records) = decode(&buffer) {
                    assert_eq!(records[1].offset - records[0].offset, i64::from(delta));
                    let own_ms = base_timestamp.wrapping_add(timestamp_delta);
                    assert_eq!(records[1].timestamp_ms, own_ms);
                }
                if delta == last_offset_delta || delta == 1 {
                    through_everything(&buffer);
                }
            }
        }
    }
}

#[test]
fn messages_at_the_ends_of_their_range() {
    for magic in [0, 1] {
        for offset in OFFSETS {
            for time in TIMES {
                let buffer = message(magic, Codec::None, offset, time, b"v");
                check_refused(&buffer, offset, "offset");
                through_everything(&buffer);
            }
            for inner in OFFSETS
                .map(|first| OFFSETS.map(|second| [first, second]))
                .concat()
            {
                let times = [
                    TIMES[(inner[0] & 3) as usize],
                    TIMES[3 + (inner[1] & 3) as usize],
                ];
                let buffer = set(magic, offset, inner, times);
                check_refused(&buffer, offset, "offset");
                let field = "offset";
                for one in inner.into_iter().filter(|_| is_offset(offset)) {
                    check_refused(&buffer, one, field);
                }
                if inner[0] <= inner[1] {
                    through_everything(&buffer);
                }
            }
        }
    }
}

/// Of several, those before the end are given, and the rest is refused.
#[test]
fn a_buffer_that_reaches_the_end() {
    let good = message(0, Codec::None, OFFSET_MAX, 7, b"v");
    let bad = message(1, Codec::None, i64::MAX, 7, b"v");
    let both = [good.clone(), bad.clone()].concat();
    let wanted = Wanted {
        magic: 1,
        first_offset: 0,
        bytes_max: usize::MAX,
    };
    let made = down_convert(&both, &wanted, &limits(), &mut Scratch::default()).unwrap();
    assert_eq!((made.bytes, made.next_offset), (good, Some(OFFSET_MAX + 1)));
    // The fuzzer's: OTTLA_FAULT_SEED=293289335 in tests/faults/broker/test_decoders.py.
    let error = down_convert(&bad, &wanted, &limits(), &mut Scratch::default()).unwrap_err();
    assert_eq!(
        (error.field, error.position, error.code()),
        ("offset", 0, 87)
    );
}

#[test]
fn messages_that_are_too_far_from_each_other_are_not_built() {
    let mut builder = MessageBuilder::new(1, Codec::Gzip, None).unwrap();
    builder.append(i64::MIN, 0, None, None).unwrap();
    let error = builder.append(i64::MAX, 0, None, None).unwrap_err();
    assert_eq!(
        (error.field, error.record.unwrap_or(NONE)),
        ("offset", NONE)
    );
}

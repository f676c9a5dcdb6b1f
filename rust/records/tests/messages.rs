//! Messages of formats 0 and 1: what is built reads back as records, what is converted too, and no bytes do harm.

use proptest::prelude::*;

use super::super::message_set::{self, ATTRIBUTES, CRC, MAGIC, key_at};
use super::*;

/// No key, value "a", offset 0; the checksum is Python's zlib.crc32 of what follows it.
const V0: &[u8] = b"\0\0\0\0\0\0\0\0\0\0\0\x0f\x51\xdf\x3a\x32\x00\x00\xff\xff\xff\xff\0\0\0\x01a";

fn codecs(magic: i8) -> Vec<Codec> {
    let _ = magic;
    vec![Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4]
}

fn messages(magic: i8, codec: Codec, records: &[Plain], append_time_ms: Option<i64>) -> Vec<u8> {
    let mut builder = MessageBuilder::new(magic, codec, append_time_ms).unwrap();
    for record in records {
        let (key, value) = (record.key.as_deref(), record.value.as_deref());
        builder
            .append(record.offset, record.timestamp_ms, key, value)
            .unwrap();
    }
    builder.finish(&mut Compressor::default())
}

/// The records as they are left in an old format.
fn seen_in(magic: i8, append_time_ms: Option<i64>, records: &[Plain]) -> Vec<Plain> {
    let plain = |record: &Plain| Plain {
        timestamp_ms: match append_time_ms {
            _ if magic == 0 => -1,
            Some(time) => time,
            None => record.timestamp_ms,
        },
        headers: vec![],
        ..record.clone()
    };
    records.iter().map(plain).collect()
}

fn seal_message(message: &mut [u8]) {
    let crc = message_set::crc(message);
    message[CRC..MAGIC].copy_from_slice(&crc.to_be_bytes());
}

fn down(
    buffer: &[u8],
    magic: i8,
    first_offset: i64,
    bytes_max: usize,
) -> Result<Vec<u8>, RecordError> {
    let wanted = Wanted {
        magic,
        first_offset,
        bytes_max,
    };
    down_convert(buffer, &wanted, &limits(), &mut Scratch::default()).map(|made| made.bytes)
}

#[test]
fn the_smallest_messages_are_byte_for_byte_as_documented() {
    let record = Plain {
        timestamp_ms: 7,
        ..plain(b"a")
    };
    assert_eq!(
        messages(0, Codec::None, std::slice::from_ref(&record), None),
        V0
    );
    let v1 = messages(1, Codec::None, &[record], None);
    assert_eq!(v1.len(), V0.len() + 8);
    assert_eq!(v1[MAGIC..key_at(1)], [1, 0, 0, 0, 0, 0, 0, 0, 0, 7]);
}

proptest! {
    #[test]
    fn messages_read_back(records in some_records(), magic in 0..2_i8, codec in 0..4_usize, time in prop::option::of(0..1_000_000_i64)) {
        let codec = codecs(magic)[codec];
        let buffer = messages(magic, codec, &records, time);
        let expected = seen_in(magic, time, &records);
        prop_assert_eq!(&decode(&buffer).unwrap(), &expected);
        let batches: Vec<_> = Batches::new(&buffer).map(Result::unwrap).collect();
        prop_assert_eq!(batches.len(), if codec == Codec::None { records.len() } else { 1 });
        prop_assert_eq!(batches.last().unwrap().header.last_offset(), records.last().unwrap().offset);
        for batch in batches {
            let seen = check(batch.bytes).unwrap();
            prop_assert_eq!(seen.header.compression().unwrap(), codec);
            prop_assert_eq!(seen.header.last_offset(), batch.header.last_offset());
        }
    }

    #[test]
    fn batches_convert_down(records in some_records(), options in some_options(), magic in 0..2_i8) {
        prop_assume!(options.codec != Codec::Zstd);
        let batch = encode(options, &records);
        let converted = down(&batch, magic, 0, usize::MAX).unwrap();
        prop_assert_eq!(&decode(&converted).unwrap(), &seen_in(magic, None, &records));
        let codec = Batches::new(&converted).next().unwrap().unwrap().header.compression().unwrap();
        prop_assert_eq!(codec, options.codec);
        // And once more, from 1 to 0; what is old enough is copied.
        prop_assert_eq!(&down(&converted, magic, 0, usize::MAX).unwrap(), &converted);
        let oldest = down(&converted, 0, 0, usize::MAX).unwrap();
        prop_assert_eq!(&decode(&oldest).unwrap(), &seen_in(0, None, &records));
    }

    #[test]
    fn conversion_stops_at_its_limit(records in some_records(), limit in 0..20_000_usize) {
        let batch = encode(BatchOptions::default(), &records);
        let mut next = batch.clone();
        stamp(&mut next, 1_000, 0, None);
        let first = down(&batch, 1, 0, usize::MAX).unwrap();
        let both = down(&[&batch[..], &next[..]].concat(), 1, 0, limit).unwrap();
        prop_assert!(both.starts_with(&first));
        prop_assert!(both.len() <= limit.max(first.len()));
        // Whole messages, and no room left for another.
        let seen = decode(&both).unwrap();
        let all = down(&[&batch[..], &next[..]].concat(), 1, 0, usize::MAX).unwrap();
        prop_assert!(all.starts_with(&both));
        let after = decode(&all).unwrap();
        if let Some(next) = after.get(seen.len()) {
            let size = |field: &Option<Vec<u8>>| field.as_ref().map_or(0, Vec::len);
            prop_assert!(both.len() + 34 + size(&next.key) + size(&next.value) > limit);
        }
    }

    #[test]
    fn any_bytes_after_the_magic_are_read_or_refused(magic in 0..2_i8, attributes in any::<u8>(), rest in bytes(200), inner in bytes(100)) {
        let mut message = messages(magic, Codec::None, &[plain(b"x")], None);
        message.truncate(ATTRIBUTES);
        message.push(attributes);
        message.extend_from_slice(&rest);
        if message.len() >= key_at(magic) {
            message.truncate(message.len() - rest.len() % 3);
        }
        let length = (message.len() - 12) as u32;
        message[8..12].copy_from_slice(&length.to_be_bytes());
        seal_message(&mut message);
        let (walked, decoded) = (check(&message), decode(&message));
        prop_assert!(walked.is_err() || decoded.is_ok());
        let produced = validate_produced(&message, &limits(), &mut Scratch::default());
        prop_assert!(produced.is_err() || walked.is_ok());
        // A set whose content is anything at all.
        let mut packed = Vec::new();
        Compressor::default().compress_set(Codec::Gzip, magic, &inner, &mut packed);
        let mut set = messages(magic, Codec::None, &[plain(&packed)], None);
        set[ATTRIBUTES] = 1;
        seal_message(&mut set);
        prop_assert!(check(&set).is_err() && decode(&set).is_err());
    }

    #[test]
    fn changed_sets_are_read_or_refused(
        records in some_records(),
        magic in 0..2_i8,
        codec in 0..4_usize,
        changes in prop::collection::vec((0..100_000_usize, any::<u8>()), 1..6),
    ) {
        let mut buffer = messages(magic, codecs(magic)[codec], &records, None);
        for (at, byte) in changes {
            let at = at % buffer.len();
            buffer[at] = byte;
        }
        let _ = decode(&buffer);
        if let Ok(header) = BatchHeader::parse(&buffer) && header.is_message() && header.size_bytes() <= buffer.len() {
            let size = header.size_bytes();
            seal_message(&mut buffer[..size]);
            let walked = check(&buffer[..size]);
            prop_assert!(walked.is_err() || decode(&buffer[..size]).is_ok());
            let _ = validate_produced(&buffer[..size], &limits(), &mut Scratch::default());
        }
        let _ = down(&buffer, 0, 0, 1 << 20);
    }
}

/// Three messages in a set, their offsets inside as given.
fn set_with(offsets: [i64; 3], outer: i64, magic: i8) -> Vec<u8> {
    let mut inner = Vec::new();
    for offset in offsets {
        let mut one = messages(magic, Codec::None, &[plain(b"x")], None);
        one[..8].copy_from_slice(&offset.to_be_bytes());
        inner.extend(one);
    }
    let mut packed = Vec::new();
    Compressor::default().compress_set(Codec::Gzip, magic, &inner, &mut packed);
    let mut set = messages(magic, Codec::None, &[plain(&packed)], None);
    set[..8].copy_from_slice(&outer.to_be_bytes());
    set[ATTRIBUTES] = 1;
    seal_message(&mut set);
    set
}

fn offsets(buffer: &[u8]) -> Result<Vec<i64>, RecordError> {
    Ok(decode(buffer)?.iter().map(|record| record.offset).collect())
}

#[test]
fn offsets_in_a_set_are_absolute_or_count_from_its_first_message() {
    assert_eq!(offsets(&set_with([5, 6, 9], 9, 0)).unwrap(), [5, 6, 9]);
    assert_eq!(
        offsets(&set_with([0, 1, 2], 102, 1)).unwrap(),
        [100, 101, 102]
    );
    // After compaction: the first is gone, the last has the outer offset.
    assert_eq!(
        offsets(&set_with([1, 3, 4], 104, 1)).unwrap(),
        [101, 103, 104]
    );
    // Some librdkafka gave the outer message none.
    assert_eq!(offsets(&set_with([0, 1, 2], 0, 1)).unwrap(), [0, 1, 2]);
    let error = offsets(&set_with([0, 1, 2], 1, 1)).unwrap_err();
    assert_eq!(
        (error.kind, error.field),
        (ErrorKind::InvalidRecord, "offset")
    );
    for magic in [0, 1] {
        let error = offsets(&set_with([0, 2, 2], 2, magic)).unwrap_err();
        assert_eq!((error.field, error.record), ("offset", Some(2)), "{error}");
    }
    // A reader goes on after the outer offset, also if the set's own end before it: it would ask for the same set for ever.
    let set = set_with([5, 6, 7], 9, 0);
    assert_eq!(check(&set).unwrap().header.last_offset(), 9);
}

#[test]
fn a_producers_set_counts_from_zero_whatever_it_says() {
    let numbered = |offsets, outer, magic| {
        let set = set_with(offsets, outer, magic);
        validate_produced(&set, &limits(), &mut Scratch::default()).map(|seen| seen.is_numbered)
    };
    assert!(numbered([0, 1, 2], 2, 1).unwrap());
    assert!(numbered([0, 1, 2], 0, 1).unwrap());
    assert!(!numbered([0, 1, 2], 7, 1).unwrap());
    assert!(!numbered([0, 0, 0], 0, 1).unwrap());
    assert!(!numbered([3, 2, 1], 0, 0).unwrap());
}

#[test]
fn what_is_wrong_in_a_set_is_named_with_its_place() {
    let mut scratch = Scratch::default();
    let inner = messages(1, Codec::None, &[plain(b"one"), plain(b"two")], None);
    let half = inner.len() / 2;
    let mut produce = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut inner = inner.clone();
        change(&mut inner);
        let mut packed = Vec::new();
        Compressor::default().compress_set(Codec::Snappy, 1, &inner, &mut packed);
        let mut set = messages(1, Codec::None, &[plain(&packed)], None);
        set[ATTRIBUTES] = 2;
        seal_message(&mut set);
        validate_produced(&set, &limits(), &mut scratch)
            .map(|_| ())
            .unwrap_err()
    };
    type Change<'a> = &'a dyn Fn(&mut Vec<u8>);
    let cases: [(Change<'_>, &str, usize, Option<u32>); 6] = [
        (&|inner| inner[half + CRC] ^= 1, "crc", half + CRC, Some(1)),
        (
            &|inner| inner[half + MAGIC] = 0,
            "magic",
            half + MAGIC,
            Some(1),
        ),
        (
            &|inner| inner[ATTRIBUTES] = 1,
            "attributes",
            ATTRIBUTES,
            Some(0),
        ),
        (&|inner| inner[half + 11] += 1, "message", half, Some(1)),
        (
            &|inner| inner[half + MAGIC] = 9,
            "magic",
            half + MAGIC,
            Some(1),
        ),
        (&|inner| inner[8] = 0xff, "batch_length", 8, Some(0)),
    ];
    for (change, field, position, record) in cases {
        let error = produce(change);
        assert!(error.in_decompressed, "{error}");
        assert_eq!(
            (error.field, error.position, error.record),
            (field, position, record),
            "{error}"
        );
    }
    let empty = produce(&|inner| inner.clear());
    assert_eq!(
        (empty.field, empty.in_decompressed),
        ("value_length", false),
        "{empty}"
    );
}

#[test]
fn a_set_that_unpacks_to_more_than_the_limit_is_refused() {
    let zeros = plain(&vec![0; 2 << 20]);
    for magic in [0, 1] {
        for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4] {
            let set = messages(magic, codec, std::slice::from_ref(&zeros), None);
            assert_eq!(check(&set).unwrap_err().kind, ErrorKind::TooLarge);
        }
    }
}

#[test]
fn lz4_of_format_0_has_the_checksum_that_old_consumers_expect() {
    let records = [plain(b"some value")];
    let frame = |magic: i8| {
        let set = messages(magic, Codec::Lz4, &records, None);
        set[key_at(magic) + 8..][..7].to_vec()
    };
    // KAFKA-3160: over the magic, too.
    assert_eq!(frame(0), [0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x1a]);
    assert_eq!(frame(1), [0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82]);
    let mut wrong = messages(1, Codec::Lz4, &records, None);
    wrong[key_at(1) + 8 + 6] = 0x1a;
    seal_message(&mut wrong);
    assert_eq!(check(&wrong).unwrap_err().kind, ErrorKind::InvalidRecord);
}

#[test]
fn what_old_formats_do_not_have_is_left_out_or_ends_the_answer() {
    let records: Vec<Plain> = (0..4)
        .map(|offset| Plain {
            offset,
            ..plain(b"value")
        })
        .collect();
    let batch = |codec, base_offset, control| {
        let options = BatchOptions {
            codec,
            control,
            ..BatchOptions::default()
        };
        let mut batch = encode(options, &records);
        stamp(&mut batch, base_offset, 0, None);
        batch
    };
    let none = batch(Codec::None, 0, false);
    let zstd = batch(Codec::Zstd, 8, false);
    let buffer = [&none[..], &batch(Codec::None, 4, true), &zstd, &none].concat();
    // Records before the wanted one are left out of what is not packed.
    assert_eq!(
        offsets(&down(&buffer, 1, 2, usize::MAX).unwrap()).unwrap(),
        [2, 3]
    );
    let gzip = batch(Codec::Gzip, 0, false);
    assert_eq!(
        offsets(&down(&gzip, 1, 2, usize::MAX).unwrap()).unwrap(),
        [0, 1, 2, 3]
    );
    let refused = down(&zstd, 1, 8, usize::MAX).unwrap_err();
    assert_eq!(refused.kind, ErrorKind::UnsupportedCompression);
    assert!(
        down(&batch(Codec::None, 0, true), 1, 0, usize::MAX)
            .unwrap()
            .is_empty()
    );
    // Damage behind what is whole is met by the next call.
    let mut damaged = batch(Codec::None, 4, false);
    damaged[70] ^= 1;
    let first = down(&[&none[..], &damaged].concat(), 1, 0, usize::MAX).unwrap();
    assert_eq!(first, down(&none, 1, 0, usize::MAX).unwrap());
    assert_eq!(down(&damaged, 1, 4, usize::MAX).unwrap_err().field, "crc");
    // Nothing whole is nothing.
    assert!(
        down(&none[..none.len() - 1], 1, 0, usize::MAX)
            .unwrap()
            .is_empty()
    );
}

#[test]
fn columns_have_what_the_messages_have() {
    let records: Vec<Plain> = (0..5)
        .map(|offset| Plain {
            offset,
            timestamp_ms: 1_000 + offset,
            key: (offset % 2 == 0).then(|| b"key".to_vec()),
            ..plain(b"value")
        })
        .collect();
    for (magic, codec, time) in [
        (0, Codec::None, None),
        (0, Codec::Gzip, None),
        (1, Codec::None, None),
        (1, Codec::Lz4, None),
        (1, Codec::Snappy, Some(9_000)),
    ] {
        let buffer = messages(magic, codec, &records, time);
        let mut decoder = ColumnDecoder::new(ColumnOptions {
            timestamp_unit: TimestampUnit::Milliseconds,
            start_offset: 1,
            rows_max: 3,
            ..ColumnOptions::default()
        });
        assert_eq!(decoder.decode(&buffer).unwrap(), Pause::ChunkFull);
        let first = decoder.take_chunk();
        assert_eq!(decoder.decode(&buffer).unwrap(), Pause::BufferDone);
        let second = decoder.take_chunk();
        assert_eq!(
            ([&first.offsets[..], &second.offsets].concat()),
            [1, 2, 3, 4]
        );
        let expected = seen_in(magic, time, &records);
        assert_eq!(first.timestamps[0], expected[1].timestamp_ms);
        let kind = if magic == 0 {
            -1
        } else {
            i32::from(time.is_some())
        };
        assert_eq!(first.timestamp_types, [kind; 3]);
        assert_eq!(decoder.next_offset(), 5);
    }
}

//! What holds for batches as a whole: what is written reads back, and no bytes do harm.

use proptest::prelude::*;

use super::*;

type OwnedHeader = (Vec<u8>, Option<Vec<u8>>);

/// A record as plain values, to compare with.
#[derive(Clone, Debug, PartialEq)]
struct Plain {
    offset: i64,
    timestamp_ms: i64,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: Vec<OwnedHeader>,
}

fn encode(options: BatchOptions, records: &[Plain]) -> Vec<u8> {
    let mut builder = BatchBuilder::new(options);
    for record in records {
        let headers: Vec<Header<'_>> = record
            .headers
            .iter()
            .map(|(key, value)| (&key[..], value.as_deref()))
            .collect();
        let delta = (record.offset - options.base_offset) as i32;
        let (key, value) = (record.key.as_deref(), record.value.as_deref());
        builder
            .append_at(delta, record.timestamp_ms, key, value, &headers)
            .unwrap();
    }
    builder.finish().unwrap()
}

fn decode(batch: &[u8]) -> Result<Vec<Plain>, RecordError> {
    let mut all = Vec::new();
    let mut scratch = Scratch::default();
    for batch in Batches::new(batch) {
        for record in Records::new(&batch?, &limits(), &mut scratch)? {
            let record = record?;
            all.push(Plain {
                offset: record.offset,
                timestamp_ms: record.timestamp_ms,
                key: record.key.map(<[u8]>::to_vec),
                value: record.value.map(<[u8]>::to_vec),
                headers: record
                    .headers
                    .map(|(key, value)| (key.to_vec(), value.map(<[u8]>::to_vec)))
                    .collect(),
            });
        }
    }
    Ok(all)
}

fn limits() -> Limits {
    Limits {
        batch_bytes_max: 1 << 20,
        decompressed_bytes_max: 1 << 20,
    }
}

fn check(batch: &[u8]) -> Result<Validated, RecordError> {
    validate(batch, &limits(), &mut Scratch::default())
}

/// Makes the checksum right again, so that what lies behind it is reached.
fn seal(batch: &mut [u8]) {
    if batch.len() >= HEADER_BYTES {
        batch::set_crc(batch);
    }
}

fn bytes(max: usize) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..max)
}

fn some_records() -> impl Strategy<Value = Vec<Plain>> {
    let header = (bytes(8), prop::option::of(bytes(70)));
    let record = (
        1..4_i64,
        -1..2_000_000_000_000_i64,
        prop::option::of(bytes(100)),
        prop::option::of(bytes(300)),
        prop::collection::vec(header, 0..4),
    );
    prop::collection::vec(record, 1..40).prop_map(|records| {
        let mut next = 0;
        records
            .into_iter()
            .map(|(step, timestamp_ms, key, value, headers)| {
                next += step;
                Plain {
                    offset: next - 1,
                    timestamp_ms,
                    key,
                    value,
                    headers,
                }
            })
            .collect()
    })
}

fn some_options() -> impl Strategy<Value = BatchOptions> {
    (
        0..5_i8,
        any::<i32>(),
        -1..1_000_000_i64,
        any::<i16>(),
        any::<i32>(),
        any::<bool>(),
    )
        .prop_map(
            |(codec, leader_epoch, producer_id, producer_epoch, base_sequence, transactional)| {
                BatchOptions {
                    codec: Codec::from_id(codec).unwrap(),
                    leader_epoch,
                    producer_id,
                    producer_epoch,
                    base_sequence,
                    transactional,
                    ..BatchOptions::default()
                }
            },
        )
}

proptest! {
    #[test]
    fn what_is_written_reads_back(records in some_records(), options in some_options()) {
        let batch = encode(options, &records);
        prop_assert_eq!(&decode(&batch).unwrap(), &records);
        let seen = check(&batch).unwrap();
        let header = seen.header;
        prop_assert_eq!(header.size_bytes(), batch.len());
        prop_assert_eq!(header.compression().unwrap(), options.codec);
        prop_assert_eq!(header.record_count as usize, records.len());
        prop_assert_eq!(header.last_offset(), records.last().unwrap().offset);
        prop_assert_eq!(
            (header.leader_epoch, header.producer_id, header.producer_epoch, header.base_sequence),
            (options.leader_epoch, options.producer_id, options.producer_epoch, options.base_sequence)
        );
        prop_assert_eq!(header.is_transactional(), options.transactional);
        let times = records.iter().map(|record| record.timestamp_ms);
        prop_assert_eq!(seen.max_timestamp, times.clone().max().unwrap());
        prop_assert_eq!(seen.max_timestamp, header.max_timestamp);
        prop_assert_eq!(seen.min_timestamp, times.filter(|time| *time >= 0).min().unwrap_or(-1));
        prop_assert_eq!(seen.keyless, records.iter().any(|record| record.key.is_none()));
        prop_assert_eq!(seen.consecutive, header.last_offset_delta + 1 == header.record_count);
    }

    #[test]
    fn every_cut_is_incomplete(records in some_records(), options in some_options(), cut in 0..100_000_usize) {
        let batch = encode(options, &records);
        let cut = cut % batch.len();
        prop_assert!(check(&batch[..cut]).unwrap_err().is_incomplete());
        prop_assert!(cut == 0 || Batches::new(&batch[..cut]).next().unwrap().unwrap_err().is_incomplete());
    }

    #[test]
    fn any_bytes_are_read_or_refused(mut buffer in bytes(400), records in bytes(300), attributes in 0..64_i16) {
        let _ = check(&buffer);
        let _ = decode(&buffer);
        // The same as the records of a batch whose header is right.
        let mut batch = encode(BatchOptions::default(), &[plain(b"x")]);
        batch.truncate(HEADER_BYTES);
        batch.extend_from_slice(&records);
        set_length(&mut batch);
        batch[21..23].copy_from_slice(&attributes.to_be_bytes());
        seal(&mut batch);
        let (walked, decoded) = (check(&batch), decode(&batch));
        prop_assert!(walked.is_err() || decoded.is_ok());
        buffer.extend_from_slice(&batch);
        let _ = decode(&buffer);
    }

    #[test]
    fn changed_batches_are_read_or_refused(
        records in some_records(),
        options in some_options(),
        changes in prop::collection::vec((0..100_000_usize, any::<u8>(), 0..4_u8), 1..6),
        sealed: bool,
    ) {
        let whole = encode(options, &records);
        let mut batch = whole.clone();
        for (at, byte, kind) in changes {
            let at = at % batch.len();
            match kind {
                0 => batch[at] = byte,
                1 => batch[at] ^= 1 << (byte % 8),
                2 => batch.insert(at, byte),
                _ if batch.len() > 1 => drop(batch.remove(at)),
                _ => {}
            }
        }
        if sealed {
            set_length(&mut batch);
            seal(&mut batch);
        } else if batch.len() == whole.len() && batch[21..] != whole[21..] {
            prop_assert!(check(&batch).is_err());
        }
        let (walked, decoded) = (check(&batch), decode(&batch));
        // What passes an append is readable.
        prop_assert!(walked.is_err() || decoded.is_ok(), "{:?}", decoded);
    }
}

fn plain(value: &[u8]) -> Plain {
    Plain {
        offset: 0,
        timestamp_ms: 1,
        key: None,
        value: Some(value.to_vec()),
        headers: vec![],
    }
}

fn set_length(batch: &mut [u8]) {
    if batch.len() >= HEADER_BYTES {
        let length = batch.len() as i32 - 12;
        batch[8..12].copy_from_slice(&length.to_be_bytes());
    }
}

#[test]
fn byte_by_byte_a_buffer_of_batches_grows_whole() {
    let records: Vec<Plain> = (0..3)
        .map(|offset| Plain {
            offset,
            ..plain(b"value")
        })
        .collect();
    let buffer: Vec<u8> = Codec::ALL
        .iter()
        .flat_map(|codec| {
            encode(
                BatchOptions {
                    codec: *codec,
                    ..BatchOptions::default()
                },
                &records,
            )
        })
        .collect();
    let mut ends = vec![0];
    ends.extend(Batches::new(&buffer).map(|batch| {
        batch
            .map(|batch| batch.position + batch.bytes.len())
            .unwrap()
    }));
    for length in 0..=buffer.len() {
        let mut batches = Batches::new(&buffer[..length]);
        let whole = batches.by_ref().filter(|batch| batch.is_ok()).count();
        assert_eq!(whole, ends.iter().filter(|end| **end <= length).count() - 1);
        assert_eq!(batches.position(), ends[whole]);
    }
}

/// One record with every field, uncompressed, and where each field is.
fn full_record() -> (Vec<u8>, Vec<(&'static str, usize)>) {
    let header = (b"name".to_vec(), Some(b"header".to_vec()));
    let record = Plain {
        offset: 0,
        timestamp_ms: 1_000,
        key: Some(b"key".to_vec()),
        value: Some(b"value".to_vec()),
        headers: vec![header.clone(), header],
    };
    let batch = encode(
        BatchOptions::default(),
        &[
            record.clone(),
            Plain {
                offset: 1,
                timestamp_ms: 1_001,
                ..record
            },
        ],
    );
    let fields = [
        ("length", 0),
        ("timestamp_delta", 2),
        ("offset_delta", 3),
        ("key_length", 4),
        ("value_length", 8),
        ("header_count", 14),
        ("header_key_length", 15),
        ("header_value_length", 20),
        ("header_key_length", 27),
        ("header_value_length", 32),
    ];
    (
        batch,
        fields
            .iter()
            .map(|(field, at)| (*field, HEADER_BYTES + at))
            .collect(),
    )
}

#[test]
fn hostile_lengths_are_errors_that_name_the_field() {
    let (batch, fields) = full_record();
    check(&batch).unwrap();
    for (field, at) in fields {
        // Numbers as hostile as one byte can say, and numbers that never end. Null is allowed for three of the fields, and
        // then the fields after it no longer fit.
        for byte in [0x7e, 0x7f, 0x01, 0x80, 0xff] {
            let mut hostile = batch.clone();
            hostile[at] = byte;
            seal(&mut hostile);
            let nullable = matches!(field, "key_length" | "value_length" | "header_value_length");
            let number = matches!(field, "timestamp_delta");
            let result = check(&hostile);
            if byte < 0x80 && number {
                result.unwrap();
                continue;
            }
            let error = result.unwrap_err();
            assert_eq!(error.code(), 87, "{error}");
            assert_eq!(error.record, Some(0), "{error}");
            if byte == 0x7e || (byte < 0x80 && !nullable) {
                let named = if field == "offset_delta" {
                    (field, HEADER_BYTES)
                } else {
                    (field, at)
                };
                assert_eq!((error.field, error.position), named, "{error}");
            } else {
                assert!(
                    error.position >= HEADER_BYTES && error.position < batch.len(),
                    "{error}"
                );
            }
        }
        let mut hostile = batch[..at].to_vec();
        hostile.extend_from_slice(&[0xff; 12]);
        hostile.extend_from_slice(&batch[at + 1..]);
        if field != "length" {
            hostile[HEADER_BYTES] += 24; // The record is longer by twelve bytes.
        }
        set_length(&mut hostile);
        seal(&mut hostile);
        let error = check(&hostile).unwrap_err();
        assert_eq!((error.field, error.position), (field, at), "{error}");
        assert!(error.to_string().contains("does not end"), "{error}");
    }
}

#[test]
fn hostile_headers_of_batches_are_errors_that_name_the_field() {
    let (batch, _) = full_record();
    let cases: [(usize, &[u8], &str, i16); 12] = [
        (8, &[0x7f, 0xff, 0xff, 0xff], "batch_length", 10),
        (8, &[0xff, 0xff, 0xff, 0xff], "batch_length", 2),
        (8, &[0, 0, 0, 48], "batch_length", 2),
        (8, &[0, 0, 0, 60], "batch_length", 2),
        (16, &[1], "magic", 43),
        (16, &[9], "magic", 2),
        (21, &[0, 5], "attributes", 76),
        (21, &[0, 4], "records", 87),
        (23, &[0xff], "last_offset_delta", 87),
        (23, &[0, 0, 0, 0], "offset_delta", 87),
        (57, &[0x7f, 0xff, 0xff, 0xff], "record_count", 87),
        (57, &[0, 0, 0, 1], "record_count", 87),
    ];
    for (at, bytes, field, code) in cases {
        let mut hostile = batch.clone();
        hostile[at..at + bytes.len()].copy_from_slice(bytes);
        seal(&mut hostile);
        let error = check(&hostile).unwrap_err();
        assert_eq!((error.field, error.code()), (field, code), "{error}");
    }
    let mut hostile = batch.clone();
    hostile[70] ^= 1;
    let error = check(&hostile).unwrap_err();
    assert_eq!(
        (error.field, error.position, error.code()),
        ("crc", 17, 2),
        "{error}"
    );
}

#[test]
fn damage_in_compressed_records_says_so() {
    let records: Vec<Plain> = (0..10)
        .map(|offset| Plain {
            offset,
            ..plain(&[7; 100])
        })
        .collect();
    let mut batch = encode(BatchOptions::default(), &records);
    batch[HEADER_BYTES + 109 * 3 + 7] = 0x55; // In the middle of a value length.
    let mut packed = batch[..HEADER_BYTES].to_vec();
    compression::Compressor::default().compress(
        Codec::Zstd,
        None,
        &batch[HEADER_BYTES..],
        &mut packed,
    );
    packed[22] = Codec::Zstd as u8;
    set_length(&mut packed);
    seal(&mut packed);
    let error = check(&packed).unwrap_err();
    assert!(error.in_decompressed && error.record == Some(3), "{error}");
    assert!(
        error.to_string().contains("of record 3 at byte 3"),
        "{error}"
    );
}

#[test]
fn what_only_a_producer_must_obey() {
    let records: Vec<Plain> = (0..4)
        .map(|offset| Plain {
            offset,
            ..plain(b"v")
        })
        .collect();
    let base = BatchOptions {
        producer_id: 5,
        producer_epoch: 0,
        base_sequence: 0,
        ..BatchOptions::default()
    };
    let produced =
        |options, records: &[Plain]| check(&encode(options, records)).unwrap().check_produced();
    produced(base, &records).unwrap();
    let cases = [
        (
            BatchOptions {
                base_sequence: -1,
                ..base
            },
            &records[..],
            "base_sequence",
            87,
        ),
        (
            BatchOptions {
                control: true,
                ..base
            },
            &records[..],
            "attributes",
            87,
        ),
        (
            BatchOptions {
                append_time_ms: Some(9),
                ..base
            },
            &records[..],
            "attributes",
            32,
        ),
        (base, &records[1..], "record_count", 87),
    ];
    for (options, records, field, code) in cases {
        let error = produced(options, records).unwrap_err();
        assert_eq!((error.field, error.code()), (field, code), "{error}");
    }
    // Records that leave out an offset, with a count that hides it.
    let mut hidden = encode(base, &[records[0].clone(), records[2].clone()]);
    hidden[23..27].copy_from_slice(&1_i32.to_be_bytes());
    hidden[HEADER_BYTES + 8 + 3] = 0; // The second record's offset delta.
    seal(&mut hidden);
    assert_eq!(
        check(&hidden).unwrap().check_produced().unwrap_err().field,
        "offset_delta"
    );
}

#[test]
fn a_transaction_marker_reads_as_it_was_written() {
    for outcome in [Outcome::Abort, Outcome::Commit] {
        let marker = Marker {
            outcome,
            coordinator_epoch: 77,
        };
        let batch = marker.batch(42, 3, 1_000).unwrap();
        let header = check(&batch).unwrap().header;
        assert!(header.is_control() && header.is_transactional());
        assert_eq!(
            (
                header.producer_id,
                header.producer_epoch,
                header.base_sequence
            ),
            (42, 3, -1)
        );
        let mut scratch = Scratch::default();
        let batch = Batches::new(&batch).next().unwrap().unwrap();
        let record = Records::new(&batch, &limits(), &mut scratch)
            .unwrap()
            .next()
            .unwrap()
            .unwrap();
        assert_eq!(Marker::read(&record).unwrap(), Some(marker));
        assert_eq!(
            Marker::read(&Record {
                key: Some(&[0, 0, 0, 9]),
                ..record
            })
            .unwrap(),
            None
        );
        Marker::read(&Record {
            key: Some(&[0, 0, 0]),
            ..record
        })
        .unwrap_err();
        Marker::read(&Record {
            value: None,
            ..record
        })
        .unwrap_err();
    }
}

#[test]
fn a_builder_refuses_without_harm_and_is_used_again() {
    let mut builder = BatchBuilder::default();
    assert_eq!(builder.finish().unwrap_err().field, "record_count");
    builder.append(5, None, Some(b"a"), &[]).unwrap();
    assert_eq!(
        builder.append_at(0, 5, None, None, &[]).unwrap_err().field,
        "offset_delta"
    );
    assert_eq!(
        builder.append(-2, None, None, &[]).unwrap_err().field,
        "timestamp"
    );
    assert_eq!(builder.append(3, None, Some(b"b"), &[]).unwrap(), 1);
    let first = builder.finish().unwrap();
    assert_eq!(decode(&first).unwrap().len(), 2);
    assert_eq!(check(&first).unwrap().header.max_timestamp, 5);
    builder.append(-1, None, None, &[]).unwrap();
    assert_eq!(check(&builder.finish().unwrap()).unwrap().max_timestamp, -1);
}

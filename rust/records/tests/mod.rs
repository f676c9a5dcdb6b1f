//! Rules of batches as a whole: what is written reads back, and no bytes do harm.

use proptest::prelude::*;

use super::*;

mod columns;
mod ends;
mod headers;
mod hostile;
mod messages;
mod mirror;
mod properties;
mod rules;
mod walk;

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

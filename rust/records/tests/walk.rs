//! The quick and the slow reader of a record read the same.

use proptest::prelude::*;

use super::super::walk::{RECORD_BYTES_MIN, read, read_slowly, read_usual};
use super::*;

fn record(
    timestamp_delta: i64,
    offset_delta: i32,
    key: &[u8],
    value: &[u8],
    headers: usize,
) -> Vec<u8> {
    let mut builder = BatchBuilder::default();
    builder.append(0, None, None, &[]).unwrap();
    let header: (&[u8], Option<&[u8]>) = (b"name", Some(b"value"));
    let key = if key.len() % 5 == 1 { None } else { Some(key) };
    builder
        .append_at(
            1 + offset_delta,
            timestamp_delta,
            key,
            Some(value),
            &vec![header; headers],
        )
        .unwrap();
    builder
        .finish()
        .unwrap()
        .split_off(HEADER_BYTES + RECORD_BYTES_MIN)
}

proptest! {
    /// The quick reader takes nothing that the slow one refuses, and reads the same.
    #[test]
    fn both_readers_read_the_same(
        timestamp_delta in 0..5_000_000_i64,
        offset_delta in 0..20_000_i32,
        key in prop::collection::vec(any::<u8>(), 0..200),
        value in prop::collection::vec(any::<u8>(), 0..10_000),
        headers in 0..3_usize,
        at in 0..40_usize,
        byte: u8,
    ) {
        let mut bytes = record(timestamp_delta, offset_delta, &key, &value, headers);
        prop_assert_eq!(read(&bytes, 0).unwrap(), read_slowly(&bytes, 0).unwrap());
        bytes.extend_from_slice(&[0; 20]);
        for change in [0, byte, 1 << (byte % 8)] {
            let at = at % bytes.len();
            bytes[at] ^= change;
            if let Some(usual) = read_usual(&bytes, 0) {
                prop_assert_eq!(Ok(usual), read_slowly(&bytes, 0));
            }
        }
    }

    #[test]
    fn any_bytes_are_read_the_same(bytes in prop::collection::vec(prop_oneof![0..20_u8, any::<u8>()], 0..60)) {
        if let Some(usual) = read_usual(&bytes, 0) {
            prop_assert_eq!(Ok(usual), read_slowly(&bytes, 0));
        }
    }
}

#[test]
fn usual_records_are_read_quickly() {
    for (timestamp_delta, value_bytes) in [(0, 0), (63, 100), (8_000, 1_000), (1_000_000, 8_000)] {
        let mut bytes = record(timestamp_delta, 5_000, b"key", &vec![7; value_bytes], 1);
        bytes.push(0); // The last record of a batch may be read slowly.
        assert!(
            read_usual(&bytes, 0).is_some(),
            "{timestamp_delta} {value_bytes}"
        );
    }
}

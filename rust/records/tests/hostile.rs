//! Every length and count corrupted: an error that names the field and its place.

use super::*;

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
        // A message of format 1, with another checksum.
        (16, &[1], "crc", 2),
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

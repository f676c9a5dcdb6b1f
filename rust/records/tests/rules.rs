//! Rules that producers must obey, transaction markers, the builder.

use super::*;

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
    // Records that do not count, as many as there should be: whoever stores them numbers them.
    let mut hidden = encode(base, &[records[0].clone(), records[2].clone()]);
    hidden[23..27].copy_from_slice(&1_i32.to_be_bytes());
    hidden[HEADER_BYTES + 8 + 3] = 0; // The second record's offset delta.
    seal(&mut hidden);
    let seen = check(&hidden).unwrap();
    seen.check_produced().unwrap();
    assert!(!seen.consecutive);
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

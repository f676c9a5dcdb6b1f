//! The batches that a mirror sends of those that it fetched.

use super::*;

fn mirror(join_bytes: usize) -> Mirror {
    Mirror::new(MirrorOptions {
        transactional: true,
        join_bytes,
        ..MirrorOptions::default()
    })
}

fn stored(base_offset: i64, offsets: impl IntoIterator<Item = i64>, codec: Codec) -> Vec<u8> {
    let records: Vec<Plain> = offsets
        .into_iter()
        .map(|offset| Plain {
            offset,
            timestamp_ms: 1000 + offset,
            ..plain(b"value")
        })
        .collect();
    let options = BatchOptions {
        codec,
        base_offset,
        leader_epoch: 9,
        ..BatchOptions::default()
    };
    encode(options, &records)
}

fn copied(mirror: &mut Mirror, buffer: &[u8], offset: i64) -> (Vec<Mirrored>, i64) {
    let none = AbortedTransactions::default();
    let (batches, next) = mirror.copy(buffer, offset, none).unwrap();
    for batch in &batches {
        // A broker takes them from a producer, once they have one.
        let mut bytes = batch.bytes.clone();
        BatchHeader {
            producer_id: 7,
            producer_epoch: 0,
            base_sequence: 0,
            ..BatchHeader::parse(&bytes).unwrap()
        }
        .write(&mut bytes);
        seal(&mut bytes);
        check(&bytes).unwrap().check_produced().unwrap();
        check(&batch.bytes).unwrap();
    }
    (batches, next)
}

fn times(batches: &[Mirrored]) -> Vec<i64> {
    let decoded = batches
        .iter()
        .flat_map(|batch| decode(&batch.bytes).unwrap());
    decoded.map(|record| record.timestamp_ms).collect()
}

#[test]
fn a_large_batch_travels_unopened() {
    for codec in [Codec::None, Codec::Zstd, Codec::Gzip] {
        let source = stored(20, 20..120, codec);
        let mut mirror = mirror(100);
        let (batches, next) = copied(&mut mirror, &source, 20);
        let [batch] = batches.as_slice() else {
            panic!("{} batches", batches.len());
        };
        assert_eq!(
            (batch.first_offset, batch.last_offset, next),
            (20, 119, 120)
        );
        assert!(batch.is_unopened);
        assert_eq!(batch.bytes[HEADER_BYTES..], source[HEADER_BYTES..]);
        let header = BatchHeader::parse(&batch.bytes).unwrap();
        assert_eq!((header.producer_id, header.producer_epoch), (-1, -1));
        assert_eq!((header.base_sequence, header.base_offset), (-1, 0));
        assert!(header.is_transactional());
        assert_eq!(header.compression(), Ok(codec));
        assert_eq!(times(&batches), (1020..1120).collect::<Vec<_>>());
    }
}

#[test]
fn small_batches_are_joined_and_gaps_are_closed() {
    let mut source = Vec::new();
    for offset in [5, 6, 7] {
        source.extend(stored(offset, [offset], Codec::Lz4));
    }
    // Compaction left two of ten.
    source.extend(stored(10, [12, 19], Codec::None));
    let mut mirror = mirror(1 << 20);
    let (batches, next) = copied(&mut mirror, &source, 6);
    let [batch] = batches.as_slice() else {
        panic!("{} batches", batches.len());
    };
    assert!(!batch.is_unopened);
    assert_eq!((batch.first_offset, batch.last_offset, next), (6, 19, 20));
    assert_eq!(times(&batches), [1006, 1007, 1012, 1019]);
}

#[test]
fn a_batch_is_cut_where_the_mirror_begins() {
    let (batches, next) = copied(&mut mirror(1), &stored(20, 20..24, Codec::Snappy), 22);
    assert_eq!(times(&batches), [1022, 1023]);
    assert_eq!(
        (batches[0].first_offset, batches[0].is_unopened, next),
        (22, false, 24)
    );
    assert_eq!(
        copied(&mut mirror(1), &stored(20, 20..24, Codec::None), 24).0,
        []
    );
}

#[test]
fn the_time_of_the_append_becomes_that_of_the_records() {
    let options = BatchOptions {
        append_time_ms: Some(5000),
        ..BatchOptions::default()
    };
    let (batches, _) = copied(
        &mut mirror(1),
        &encode(
            options,
            &[
                plain(b"a"),
                Plain {
                    offset: 1,
                    ..plain(b"b")
                },
            ],
        ),
        0,
    );
    assert_eq!(times(&batches), [5000, 5000]);
}

#[test]
fn old_formats_are_written_anew() {
    let mut builder = MessageBuilder::new(1, Codec::Gzip, None).unwrap();
    for offset in 3..6 {
        builder
            .append(offset, offset * 10, Some(b"k"), Some(b"v"))
            .unwrap();
    }
    let source = builder.finish(&mut Compressor::default());
    let (batches, next) = copied(&mut mirror(1), &source, 3);
    assert_eq!((times(&batches), next), (vec![30, 40, 50], 6));
}

#[test]
fn markers_and_aborted_batches_are_left_out() {
    let of = |producer_id, base_offset| {
        let options = BatchOptions {
            producer_id,
            producer_epoch: 0,
            base_sequence: 0,
            transactional: true,
            base_offset,
            ..BatchOptions::default()
        };
        encode(
            options,
            &[Plain {
                offset: base_offset,
                timestamp_ms: base_offset,
                ..plain(b"v")
            }],
        )
    };
    let marker = |producer_id, outcome, offset| {
        let marker = Marker {
            outcome,
            coordinator_epoch: 1,
        };
        let mut batch = marker.batch(producer_id, 0, 1).unwrap();
        stamp(&mut batch, offset, 0, None);
        batch
    };
    let source = [
        of(1, 0),
        of(2, 1),
        marker(1, Outcome::Abort, 2),
        of(1, 3),
        marker(2, Outcome::Commit, 4),
        marker(1, Outcome::Commit, 5),
    ]
    .concat();
    let aborted = AbortedTransactions::new(&[AbortedTransaction {
        producer_id: 1,
        first_offset: 0,
    }]);
    let (batches, next) = mirror(1).copy(&source, 0, aborted).unwrap();
    assert_eq!((times(&batches), next), (vec![1, 3], 6));
}

#[test]
fn a_record_that_was_there_does_not_go_back() {
    let record = |offset, came_from: Option<&[u8]>| Plain {
        offset,
        timestamp_ms: offset,
        headers: came_from
            .map(|value| (b"from".to_vec(), Some(value.to_vec())))
            .into_iter()
            .collect(),
        ..plain(b"v")
    };
    let records = [
        record(0, None),
        record(1, Some(b"B")),
        record(2, Some(b"C")),
    ];
    let source = encode(BatchOptions::default(), &records);
    let options = MirrorOptions {
        header: Some((b"from".to_vec(), b"A".to_vec())),
        stops: vec![b"B".to_vec()],
        ..MirrorOptions::default()
    };
    let mut mirror = Mirror::new(options);
    let (batches, next) = copied(&mut mirror, &source, 0);
    assert_eq!((times(&batches), next), (vec![0, 2], 3));
    let headers: Vec<_> = decode(&batches[0].bytes)
        .unwrap()
        .into_iter()
        .map(|record| record.headers)
        .collect();
    let from = |value: &[u8]| (b"from".to_vec(), Some(value.to_vec()));
    assert_eq!(headers, [vec![from(b"A")], vec![from(b"C"), from(b"A")]]);
    assert_eq!(
        BatchHeader::parse(&batches[0].bytes).unwrap().base_sequence,
        -1
    );
    // Nothing is left of this one.
    let source = encode(BatchOptions::default(), &[record(0, Some(b"B"))]);
    assert_eq!(copied(&mut mirror, &source, 0), (vec![], 1));
}

#[test]
fn what_is_before_damage_is_given() {
    let mut source = stored(0, 0..5, Codec::None);
    let whole = source.len();
    source.extend(stored(5, 5..9, Codec::None));
    *source.last_mut().unwrap() ^= 1;
    let (batches, next) = copied(&mut mirror(1), &source, 0);
    assert_eq!((times(&batches).len(), next), (5, 5));
    let none = AbortedTransactions::default;
    let error = mirror(1).copy(&source[whole..], 5, none()).unwrap_err();
    assert_eq!((error.field, error.code()), ("crc", 2));
    // A fetched buffer may end anywhere.
    for end in 0..whole {
        assert_eq!(copied(&mut mirror(1), &source[..end], 0), (vec![], 0));
    }
}

#[test]
fn a_record_that_cannot_be_read_stops_it_there() {
    let mut source = stored(0, 0..2, Codec::None);
    let mut bad = stored(2, [2, 5], Codec::None);
    bad[HEADER_BYTES] = 0xff;
    seal(&mut bad);
    source.extend(bad);
    let mut mirror = mirror(1);
    let (batches, next) = copied(&mut mirror, &source, 0);
    assert_eq!((times(&batches).len(), next), (2, 2));
}

proptest! {
    #[test]
    fn no_bytes_do_harm(bytes in proptest::collection::vec(any::<u8>(), 0..300), at in 0_usize..200) {
        let mut source = stored(0, 0..3, Codec::None);
        let at = at.min(source.len());
        source.splice(at.., bytes);
        let _ = mirror(50).copy(&source, 0, AbortedTransactions::default());
    }
}

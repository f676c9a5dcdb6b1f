//! Columns are what the records are, minus what a consumer must not see, however they are cut into buffers and chunks.

use proptest::prelude::*;

use super::super::chunk::{BinaryColumn, Bitmap};
use super::*;

fn column_options() -> ColumnOptions {
    ColumnOptions {
        timestamp_unit: TimestampUnit::Milliseconds,
        limits: limits(),
        ..ColumnOptions::default()
    }
}

/// Decodes buffers one after the other, chunk by chunk.
fn chunks(options: ColumnOptions, buffers: &[&[u8]]) -> Result<Vec<Chunk>, RecordError> {
    let mut decoder = ColumnDecoder::new(options);
    let mut chunks = Vec::new();
    for buffer in buffers {
        decoder.start_buffer(None);
        while decoder.decode(buffer)? == Pause::ChunkFull {
            chunks.push(decoder.take_chunk());
        }
    }
    chunks.push(decoder.take_chunk());
    Ok(chunks)
}

fn rows(chunks: &[Chunk]) -> Vec<Plain> {
    chunks
        .iter()
        .flat_map(|chunk| (0..chunk.rows).map(|row| plain_row(chunk, row)))
        .collect()
}

fn owned(column: &BinaryColumn, row: usize) -> Option<Vec<u8>> {
    column.get(row).map(<[u8]>::to_vec)
}

fn plain_row(chunk: &Chunk, row: usize) -> Plain {
    let headers = &chunk.headers;
    let (start, end) = (
        headers.positions[row] as usize,
        headers.positions[row + 1] as usize,
    );
    assert_eq!(
        headers.validity.bits[row / 8] >> (row % 8) & 1 == 1,
        start < end
    );
    Plain {
        offset: chunk.offsets[row],
        timestamp_ms: chunk.timestamps[row],
        key: owned(&chunk.keys, row),
        value: owned(&chunk.values, row),
        headers: (start..end)
            .map(|at| {
                (
                    owned(&headers.names, at).unwrap(),
                    owned(&headers.values, at),
                )
            })
            .collect(),
    }
}

/// Several batches of one partition: every codec, some with log append time, gaps inside and between.
fn partition() -> impl Strategy<Value = Vec<(Vec<u8>, Vec<Plain>)>> {
    let batch = (
        some_records(),
        some_options(),
        0..5_i64,
        prop::option::of(0..2_000_000_000_000_i64),
    );
    prop::collection::vec(batch, 0..6).prop_map(|batches| {
        let mut next_offset = 0;
        batches
            .into_iter()
            .map(|(mut records, options, gap, append_time_ms)| {
                let base_offset = next_offset + gap;
                for record in &mut records {
                    record.offset += base_offset;
                    for (name, _) in &mut record.headers {
                        name.iter_mut().for_each(|byte| *byte &= 0x7f);
                    }
                }
                let batch = encode(
                    BatchOptions {
                        base_offset,
                        append_time_ms,
                        ..options
                    },
                    &records,
                );
                records.iter_mut().for_each(|record| {
                    record.timestamp_ms = append_time_ms.unwrap_or(record.timestamp_ms)
                });
                next_offset = records.last().unwrap().offset + 1;
                (batch, records)
            })
            .collect()
    })
}

proptest! {

    #[test]
    fn columns_are_the_records_between_the_bounds(
        partition in partition(),
        start_offset in 0..60_i64,
        length in 0..200_i64,
        rows_max in 1..50_usize,
        bytes_max in 0..5000_usize,
        cut in 0..100_000_usize,
    ) {
        let end_offset = start_offset + length;
        let options = ColumnOptions { start_offset, end_offset, rows_max, bytes_max, ..column_options() };
        let buffer: Vec<u8> = partition.iter().flat_map(|(batch, _)| batch.clone()).collect();
        let wanted: Vec<Plain> = partition
            .iter()
            .flat_map(|(_, records)| records.clone())
            .filter(|record| (start_offset..end_offset).contains(&record.offset))
            .collect();

        let whole = chunks(options, &[&buffer]).unwrap();
        prop_assert_eq!(&rows(&whole), &wanted);
        for chunk in &whole {
            prop_assert!(chunk.rows <= rows_max && (chunk.rows <= 1 || chunk.bytes <= bytes_max));
            prop_assert_eq!(chunk.keys.validity.null_count, (0..chunk.rows).filter(|row| chunk.keys.get(*row).is_none()).count());
        }
        // Batch by batch, and with each batch cut somewhere and then fetched again.
        let mut buffers = Vec::new();
        for (batch, _) in &partition {
            buffers.push(&batch[..cut % batch.len()]);
            buffers.push(&batch[..]);
        }
        prop_assert_eq!(&rows(&chunks(options, &buffers).unwrap()), &wanted);
        // Decoding from where it stopped gives the same as decoding at once.
        let mut decoder = ColumnDecoder::new(options);
        decoder.decode(&buffer[..cut % (buffer.len() + 1)]).unwrap();
        let resumed = ColumnOptions { start_offset: decoder.next_offset(), ..options };
        let mut both = rows(&[decoder.take_chunk()]);
        both.extend(rows(&chunks(resumed, &[&buffer]).unwrap()));
        prop_assert_eq!(&both, &wanted);
    }

    #[test]
    fn changed_buffers_are_decoded_or_refused(
        partition in partition(),
        changes in prop::collection::vec((0..100_000_usize, any::<u8>()), 1..4),
        check_crc: bool,
    ) {
        let mut buffer: Vec<u8> = partition.iter().flat_map(|(batch, _)| batch.clone()).collect();
        for (at, byte) in changes {
            if !buffer.is_empty() {
                let at = at % buffer.len();
                buffer[at] = byte;
            }
        }
        let _ = chunks(ColumnOptions { check_crc, rows_max: 7, ..column_options() }, &[&buffer]);
    }
}

fn value_batch(
    base_offset: i64,
    producer_id: i64,
    transactional: bool,
    values: &[&str],
) -> Vec<u8> {
    let options = BatchOptions {
        base_offset,
        producer_id,
        transactional,
        ..BatchOptions::default()
    };
    let mut builder = BatchBuilder::new(options);
    for value in values {
        builder
            .append(1_000, None, Some(value.as_bytes()), &[])
            .unwrap();
    }
    builder.finish().unwrap()
}

fn marker_batch(base_offset: i64, producer_id: i64, outcome: Outcome) -> Vec<u8> {
    let mut batch = Marker {
        outcome,
        coordinator_epoch: 0,
    }
    .batch(producer_id, 0, 1_000)
    .unwrap();
    stamp(&mut batch, base_offset, 0, None);
    batch
}

#[test]
fn aborted_transactions_and_markers_are_left_out() {
    let buffer = [
        value_batch(0, -1, false, &["plain"]),
        value_batch(1, 7, true, &["aborted", "aborted"]),
        value_batch(3, 8, true, &["committed"]),
        value_batch(4, 7, true, &["aborted"]),
        marker_batch(5, 7, Outcome::Abort),
        marker_batch(6, 8, Outcome::Commit),
        value_batch(7, 7, true, &["committed"]),
        marker_batch(8, 7, Outcome::Commit),
        value_batch(9, 8, true, &["aborted"]),
        marker_batch(10, 8, Outcome::Abort),
        value_batch(11, 7, false, &["plain"]),
    ]
    .concat();
    let transaction = |producer_id, first_offset| AbortedTransaction {
        producer_id,
        first_offset,
    };
    let mut decoder = ColumnDecoder::new(column_options());
    decoder.start_buffer(Some(&[transaction(8, 9), transaction(7, 1)])); // In any order.
    assert_eq!(decoder.decode(&buffer).unwrap(), Pause::BufferDone);
    assert_eq!(decoder.next_offset(), 12);
    let chunk = decoder.take_chunk();
    assert_eq!(chunk.offsets, [0, 3, 7, 11]);
    assert!((0..4).all(|row| chunk.values.get(row) != Some(b"aborted")));

    // Without the list (read uncommitted) only the markers are left out.
    let all = chunks(column_options(), &[&buffer]).unwrap();
    assert_eq!(all[0].offsets, [0, 1, 2, 3, 4, 7, 9, 11]);
}

#[test]
fn offsets_go_on_past_batches_that_show_nothing() {
    let buffer = [
        marker_batch(5, 7, Outcome::Abort),
        marker_batch(6, 8, Outcome::Commit),
    ]
    .concat();
    let mut decoder = ColumnDecoder::new(ColumnOptions {
        start_offset: 3,
        end_offset: 7,
        ..column_options()
    });
    assert_eq!(decoder.decode(&buffer).unwrap(), Pause::End);
    assert_eq!(
        (decoder.next_offset(), decoder.rows(), decoder.position()),
        (7, 0, buffer.len())
    );
    // A batch that starts past the end also says that nothing before the end is left.
    let mut decoder = ColumnDecoder::new(ColumnOptions {
        end_offset: 4,
        ..column_options()
    });
    assert_eq!(decoder.decode(&buffer).unwrap(), Pause::End);
    assert!(decoder.is_done() && decoder.next_offset() == 4);
}

#[test]
fn rows_before_damage_are_kept_and_the_error_says_where() {
    let good = value_batch(0, -1, false, &["a", "b"]);
    let mut bad = value_batch(2, -1, false, &["c", "d"]);
    bad[70] ^= 1;
    let buffer = [good.clone(), bad].concat();
    let mut decoder = ColumnDecoder::new(column_options());
    let error = decoder.decode(&buffer).unwrap_err();
    assert_eq!(
        (error.field, error.position),
        ("crc", good.len() + 17),
        "{error}"
    );
    assert_eq!(decoder.decode(&buffer).unwrap_err(), error);
    assert_eq!(
        (decoder.rows(), decoder.next_offset(), decoder.position()),
        (2, 2, good.len())
    );
}

#[test]
fn only_selected_columns_are_filled() {
    let buffer = value_batch(0, -1, false, &["a", "b"]);
    for name in Selection::NAMES {
        let mut selection = Selection::NONE;
        assert!(selection.add(name) && !selection.add("no such column"));
        let chunk = chunks(
            ColumnOptions {
                selection,
                ..column_options()
            },
            &[&buffer],
        )
        .unwrap()
        .remove(0);
        assert_eq!(chunk.rows, 2);
        let filled = [
            chunk.offsets.len(),
            chunk.timestamps.len(),
            chunk.timestamp_types.len(),
            chunk.keys.positions.len() - 1,
            chunk.values.positions.len() - 1,
            chunk.headers.positions.len() - 1,
        ];
        assert_eq!(
            filled.map(|rows| rows > 0),
            Selection::NAMES.map(|column| column == name)
        );
    }
}

#[test]
fn timestamps_that_microseconds_cannot_hold() {
    const MOST_MS: i64 = i64::MAX / 1000;
    let times = [MOST_MS, MOST_MS + 1, i64::MAX, -1, 0, 1, 2, 3, 4];
    let mut builder = BatchBuilder::default();
    for time_ms in times {
        builder.append(time_ms, None, None, &[]).unwrap();
    }
    let batch = builder.finish().unwrap();
    let options = ColumnOptions {
        limits: limits(),
        ..ColumnOptions::default()
    };
    let error = chunks(options, &[&batch]).unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidTimestamp);
    assert!(
        error
            .to_string()
            .contains("offset 1 has the timestamp 9223372036854776,")
    );

    let nulls = ColumnOptions {
        timestamp_overflow: TimestampOverflow::Null,
        ..options
    };
    let chunk = chunks(nulls, &[&batch]).unwrap().remove(0);
    let expected = times.map(|time_ms| time_ms.checked_mul(1000));
    assert_eq!(chunk.timestamps, expected.map(Option::unwrap_or_default));
    assert_eq!(chunk.timestamp_validity.null_count, 2);
    assert_eq!(chunk.timestamp_validity.bits, [0b1111_1001, 1]);

    let milliseconds = ColumnOptions {
        timestamp_unit: TimestampUnit::Milliseconds,
        ..options
    };
    let chunk = chunks(milliseconds, &[&batch]).unwrap().remove(0);
    assert_eq!(chunk.timestamps, times);
    assert_eq!(chunk.timestamp_validity, Bitmap::default());
    let unseen = ColumnOptions {
        selection: Selection {
            offset: true,
            ..Selection::NONE
        },
        ..options
    };
    assert_eq!(
        chunks(unseen, &[&batch]).unwrap().remove(0).rows,
        times.len()
    );
}

#[test]
fn names_of_headers_are_made_fit() {
    let mut builder = BatchBuilder::default();
    builder
        .append(0, None, None, &[(b"\xffname", None)])
        .unwrap();
    let batch = builder.finish().unwrap();
    let chunk = chunks(
        ColumnOptions {
            limits: limits(),
            ..ColumnOptions::default()
        },
        &[&batch],
    )
    .unwrap()
    .remove(0);
    assert_eq!(chunk.headers.names.get(0), Some("\u{fffd}name".as_bytes()));
    assert_eq!(chunk.headers.values.get(0), None);
}

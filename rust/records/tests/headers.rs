//! The header of a batch, the iterator over batches, and what a broker stamps.

use super::batch::*;
use super::*;

fn empty_batch() -> Vec<u8> {
    let header = BatchHeader {
        base_offset: 7,
        batch_length: (HEADER_BYTES - LOG_OVERHEAD_BYTES) as i32,
        leader_epoch: 3,
        magic: MAGIC_V2,
        crc: 0,
        attributes: TRANSACTIONAL | 4,
        last_offset_delta: 9,
        base_timestamp: 1_000,
        max_timestamp: 2_000,
        producer_id: 42,
        producer_epoch: 5,
        base_sequence: i32::MAX - 3,
        record_count: 0,
    };
    let mut batch = vec![0; HEADER_BYTES];
    header.write(&mut batch);
    set_crc(&mut batch);
    batch
}

#[test]
fn a_header_reads_as_it_was_written() {
    let batch = empty_batch();
    let header = BatchHeader::parse(&batch).unwrap();
    assert_eq!(
        (
            header.base_offset,
            header.last_offset(),
            header.leader_epoch
        ),
        (7, 16, 3)
    );
    assert_eq!((header.producer_id, header.producer_epoch), (42, 5));
    assert_eq!(header.last_sequence(), 5); // 2147483644 + 9, around the corner
    assert_eq!(header.compression().unwrap(), Codec::Zstd);
    assert!(header.is_transactional() && !header.is_control() && !header.is_log_append_time());
    check_crc(&batch, &header).unwrap();
}

#[test]
fn stamping_keeps_the_checksum_unless_the_time_changes() {
    let mut batch = empty_batch();
    let before = BatchHeader::parse(&batch).unwrap();
    stamp(&mut batch, 1_000_000, 8, None);
    let header = BatchHeader::parse(&batch).unwrap();
    assert_eq!(
        header,
        BatchHeader {
            base_offset: 1_000_000,
            leader_epoch: 8,
            ..before
        }
    );
    check_crc(&batch, &header).unwrap();

    stamp(&mut batch, 5, 9, Some(1234));
    let header = BatchHeader::parse(&batch).unwrap();
    assert!(header.is_log_append_time());
    assert_eq!((header.max_timestamp, header.base_timestamp), (1234, 1_000));
    assert_ne!(header.crc, before.crc);
    check_crc(&batch, &header).unwrap();
}

#[test]
fn iteration_ends_with_the_batch_that_is_not_whole() {
    let batch = empty_batch();
    let mut buffer = [batch.clone(), batch.clone(), batch.clone()].concat();
    assert_eq!(Batches::new(&buffer).filter_map(Result::ok).count(), 3);
    for cut in 2 * HEADER_BYTES + 1..3 * HEADER_BYTES {
        let mut batches = Batches::new(&buffer[..cut]);
        let last = batches.by_ref().last().unwrap().unwrap_err();
        assert!(
            last.is_incomplete() && last.position == 2 * HEADER_BYTES,
            "{last}"
        );
        assert_eq!(batches.position(), 2 * HEADER_BYTES);
        assert!(batches.next().is_none());
    }
    buffer[HEADER_BYTES + MAGIC] = 3;
    let error = Batches::new(&buffer).nth(1).unwrap().unwrap_err();
    assert_eq!(
        (error.kind, error.field, error.position),
        (ErrorKind::Corrupt, "magic", HEADER_BYTES + MAGIC)
    );
}

#[test]
fn zeros_and_bad_fixed_fields_are_errors_that_name_the_field() {
    assert_eq!(
        BatchHeader::parse(&[0; 100]).unwrap_err().field,
        "batch_length"
    );
    let cases: [(usize, &[u8], &str); 5] = [
        (BATCH_LENGTH, &[0x80, 0, 0, 0], "batch_length"),
        (BATCH_LENGTH, &[0, 0, 0, 48], "batch_length"),
        (MAGIC, &[3], "magic"),
        (LAST_OFFSET_DELTA, &[0xff], "last_offset_delta"),
        (RECORD_COUNT, &[0xff], "record_count"),
    ];
    for (at, bytes, field) in cases {
        let mut batch = empty_batch();
        batch[at..at + bytes.len()].copy_from_slice(bytes);
        let error = BatchHeader::parse(&batch).unwrap_err();
        assert_eq!((error.field, error.position), (field, at), "{error}");
    }
}

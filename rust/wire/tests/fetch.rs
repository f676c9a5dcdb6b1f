use std::os::fd::OwnedFd;
use std::sync::Arc;

use proptest::prelude::*;

use super::names_field_and_position;
use crate::wire::fetch::*;
use crate::wire::piece::{FileSlice, Piece};

type Asked = (String, (i32, i32, i64, i32, i64, i32));

fn asked() -> impl Strategy<Value = Vec<Asked>> {
    proptest::collection::vec(
        ("[a-cé]{1,3}", any::<(i32, i32, i64, i32, i64, i32)>()),
        0..6,
    )
}

fn partitions(asked: &[Asked], version: i16) -> Vec<PartitionToFetch<'_>> {
    asked
        .iter()
        .map(
            |(topic, (partition, leader_epoch, offset, last_epoch, start, bytes_max))| {
                PartitionToFetch {
                    topic,
                    partition: *partition,
                    current_leader_epoch: if version >= 9 { *leader_epoch } else { -1 },
                    fetch_offset: *offset,
                    last_fetched_epoch: if version >= 12 { *last_epoch } else { -1 },
                    log_start_offset: if version >= 5 { *start } else { -1 },
                    bytes_max: *bytes_max,
                }
            },
        )
        .collect()
}

proptest! {
    #[test]
    fn requests_come_back(
        version in 0..=VERSION_MAX,
        numbers: (i32, i32, i32, i32, i8, i32, i32),
        asked in asked(),
        forgotten in proptest::collection::vec(("[ab]", any::<i32>()), 0..4),
        rack_id in "[a-z]{0,4}",
        cluster_id in proptest::option::of("[a-z]{0,200}"),
    ) {
        let (replica_id, max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch) = numbers;
        let to_send = RequestToSend {
            cluster_id: cluster_id.as_deref(),
            replica_id,
            max_wait_ms,
            min_bytes,
            max_bytes: if version >= 3 { max_bytes } else { i32::MAX },
            isolation_level: if version >= 4 { isolation_level } else { 0 },
            session_id: if version >= 7 { session_id } else { 0 },
            session_epoch: if version >= 7 { session_epoch } else { -1 },
            rack_id: if version >= 11 { &rack_id } else { "" },
        };
        let partitions = partitions(&asked, version);
        let forgotten: Vec<_> = forgotten.iter().filter(|_| version >= 7).map(|(topic, partition)| (topic.as_str(), *partition)).collect();
        let body = encode_request(version, &to_send, &partitions, &forgotten).unwrap();
        let request = decode_request(&body, version).unwrap();
        let text = |range: std::ops::Range<usize>| std::str::from_utf8(&body[range]).unwrap();
        prop_assert_eq!(
            (request.replica_id, request.max_wait_ms, request.min_bytes, request.max_bytes, request.isolation_level),
            (replica_id, max_wait_ms, min_bytes, to_send.max_bytes, to_send.isolation_level)
        );
        prop_assert_eq!((request.session_id, request.session_epoch), (to_send.session_id, to_send.session_epoch));
        prop_assert_eq!(text(request.rack_id), to_send.rack_id);
        prop_assert_eq!(request.cluster_id.map(text), cluster_id.as_deref().filter(|_| version >= 12));
        let back: Vec<_> = request.forgotten.into_iter().map(|(topic, partition)| (text(topic), partition)).collect();
        prop_assert_eq!(back, forgotten);
        prop_assert_eq!(request.partitions.len(), partitions.len());
        for (back, sent) in request.partitions.into_iter().zip(&partitions) {
            prop_assert_eq!(text(back.topic), sent.topic);
            prop_assert_eq!(
                (back.partition, back.current_leader_epoch, back.fetch_offset, back.last_fetched_epoch, back.log_start_offset, back.bytes_max),
                (sent.partition, sent.current_leader_epoch, sent.fetch_offset, sent.last_fetched_epoch, sent.log_start_offset, sent.bytes_max)
            );
        }
    }

    #[test]
    fn responses_come_back(version in 0..=VERSION_MAX, head: (i32, i16, i32), rows in rows()) {
        let head = ResponseHead { throttle_time_ms: head.0, error_code: head.1, session_id: head.2 };
        let file = tempfile::tempfile().unwrap();
        let sent: Vec<_> = rows.iter().map(|row| row.response(version)).collect();
        let to_send = rows.iter().map(|row| row.response(version).with(row.data(&file))).collect();
        let body = flatten(encode_response(version, head, to_send).unwrap());
        let back = decode_response(&body, version).unwrap();
        prop_assert_eq!(back.head.throttle_time_ms, if version >= 1 { head.throttle_time_ms } else { 0 });
        if version >= 7 {
            prop_assert_eq!(back.head, head);
        }
        prop_assert_eq!(back.partitions.len(), sent.len());
        for ((back, sent), row) in back.partitions.into_iter().zip(sent).zip(&rows) {
            let records = back.records.clone().unwrap();
            prop_assert_eq!(&body[records], &row.records[..]);
            let topic = &body[back.topic.clone()];
            prop_assert_eq!(back.named(topic).with(()), sent);
        }
    }

    #[test]
    fn arbitrary_bytes_are_an_error_or_a_message(version in 0..=VERSION_MAX, bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        for error in [decode_request(&bytes, version).err(), decode_response(&bytes, version).err()].into_iter().flatten() {
            names_field_and_position(&error, bytes.len());
        }
    }

    #[test]
    fn a_cut_message_is_an_error(version in 0..=VERSION_MAX, asked in asked(), rows in rows()) {
        let request = RequestToSend {
            cluster_id: Some("c"), replica_id: 1, max_wait_ms: 2, min_bytes: 3, max_bytes: 4, isolation_level: 0, session_id: 0, session_epoch: 0, rack_id: "r",
        };
        let forgotten: &[(&str, i32)] = if version >= 7 { &[("f", 1)] } else { &[] };
        let body = encode_request(version, &request, &partitions(&asked, version), forgotten).unwrap();
        for length in 0..body.len() {
            names_field_and_position(&decode_request(&body[..length], version).unwrap_err(), length);
        }
        let to_send = rows.iter().map(|row| row.response(version).with(RecordData::Bytes(row.records.clone()))).collect();
        let body = flatten(encode_response(version, ResponseHead::default(), to_send).unwrap());
        for length in 0..body.len() {
            names_field_and_position(&decode_response(&body[..length], version).unwrap_err(), length);
        }
    }
}

/// A partition of a response as proptest makes it.
#[derive(Clone, Debug)]
struct Row {
    topic: String,
    numbers: (i32, i16, i64, i64, i64, i32),
    diverging_epoch: Option<(i32, i64)>,
    current_leader: Option<(i32, i32)>,
    aborted: Option<Vec<(i64, i64)>>,
    records: Vec<u8>,
    in_file: bool,
}

fn rows() -> impl Strategy<Value = Vec<Row>> {
    let row = (
        "[ab]",
        any::<(i32, i16, i64, i64, i64, i32)>(),
        any::<Option<(i32, i64)>>(),
        any::<Option<(i32, i32)>>(),
        any::<Option<Vec<(i64, i64)>>>(),
        proptest::collection::vec(any::<u8>(), 0..50),
        any::<bool>(),
    )
        .prop_map(
            |(topic, numbers, diverging_epoch, current_leader, aborted, records, in_file)| Row {
                topic,
                numbers,
                diverging_epoch,
                current_leader,
                aborted: aborted.map(|list| list.into_iter().take(3).collect()),
                records,
                in_file,
            },
        );
    proptest::collection::vec(row, 0..6)
}

impl Row {
    /// The row as a version can say it, without its records.
    fn response(&self, version: i16) -> PartitionResponse<&[u8], ()> {
        let (partition, error_code, high_watermark, stable, start, replica) = self.numbers;
        let mut response =
            PartitionResponse::empty(self.topic.as_bytes(), partition, error_code, ());
        response.high_watermark = high_watermark;
        if version >= 4 {
            response.last_stable_offset = stable;
            response.aborted_transactions = self.aborted.clone();
        }
        if version >= 5 {
            response.log_start_offset = start;
        }
        if version >= 11 {
            response.preferred_read_replica = replica;
        }
        if version >= 12 {
            response.diverging_epoch = self.diverging_epoch;
            response.current_leader = self.current_leader;
        }
        response
    }

    /// The records in memory, or as a slice of the file, to whose end they are written.
    fn data(&self, file: &std::fs::File) -> RecordData {
        use std::io::{Seek, SeekFrom, Write};
        if self.records.is_empty() {
            return RecordData::Empty;
        }
        if !self.in_file {
            return RecordData::Bytes(self.records.clone());
        }
        let mut file = file.try_clone().unwrap();
        let position = file.seek(SeekFrom::End(0)).unwrap();
        file.write_all(&self.records).unwrap();
        RecordData::File(FileSlice {
            file: Arc::new(Arc::new(OwnedFd::from(file))),
            position,
            length: self.records.len() as u64,
        })
    }
}

/// The bytes that the hub would send.
fn flatten(pieces: Vec<Piece>) -> Vec<u8> {
    assert!(matches!(pieces.first(), Some(Piece::Bytes(_))));
    let mut body = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Bytes(bytes) => body.extend_from_slice(&bytes),
            Piece::File(slice) => {
                let mut bytes = vec![0; slice.length as usize];
                let descriptor = slice.file.descriptor().unwrap();
                let read = rustix::io::pread(&descriptor, &mut bytes, slice.position).unwrap();
                assert_eq!(read, bytes.len());
                body.extend_from_slice(&bytes);
            }
        }
    }
    body
}

impl<Name, Data> PartitionResponse<Name, Data> {
    fn with<Other>(self, records: Other) -> PartitionResponse<Name, Other> {
        PartitionResponse {
            topic: self.topic,
            partition: self.partition,
            error_code: self.error_code,
            high_watermark: self.high_watermark,
            last_stable_offset: self.last_stable_offset,
            log_start_offset: self.log_start_offset,
            diverging_epoch: self.diverging_epoch,
            current_leader: self.current_leader,
            aborted_transactions: self.aborted_transactions,
            preferred_read_replica: self.preferred_read_replica,
            records,
        }
    }

    fn named<Other>(self, topic: Other) -> PartitionResponse<Other, ()> {
        let mut named = PartitionResponse::empty(topic, self.partition, self.error_code, ());
        named.high_watermark = self.high_watermark;
        named.last_stable_offset = self.last_stable_offset;
        named.log_start_offset = self.log_start_offset;
        named.diverging_epoch = self.diverging_epoch;
        named.current_leader = self.current_leader;
        named.aborted_transactions = self.aborted_transactions;
        named.preferred_read_replica = self.preferred_read_replica;
        named
    }
}

fn request_of(rows: &[(&str, i32, i64)]) -> Vec<u8> {
    let to_send = RequestToSend {
        cluster_id: None,
        replica_id: -1,
        max_wait_ms: 0,
        min_bytes: 0,
        max_bytes: 1,
        isolation_level: 0,
        session_id: 0,
        session_epoch: -1,
        rack_id: "",
    };
    let partitions: Vec<_> = rows
        .iter()
        .map(|&(topic, partition, fetch_offset)| PartitionToFetch {
            topic,
            partition,
            current_leader_epoch: -1,
            fetch_offset,
            last_fetched_epoch: -1,
            log_start_offset: -1,
            bytes_max: 1,
        })
        .collect();
    encode_request(11, &to_send, &partitions, &[]).unwrap()
}

#[test]
fn a_partition_that_is_named_twice_is_asked_for_once() {
    let rows = [
        ("a", 0, 1),
        ("b", 0, 2),
        ("a", 1, 3),
        ("a", 0, 4),
        ("b", 0, 5),
        ("a", 0, 6),
        ("c", 1, 7),
    ];
    let body = request_of(&rows);
    let mut request = decode_request(&body, 11).unwrap();
    request.name_each_once(&body);
    let found: Vec<_> = request
        .partitions
        .iter()
        .map(|row| (&body[row.topic.clone()], row.partition, row.fetch_offset))
        .collect();
    // Where it is named first, with what is asked last.
    let expected: [(&[u8], i32, i64); 4] = [(b"a", 0, 6), (b"b", 0, 5), (b"a", 1, 3), (b"c", 1, 7)];
    assert_eq!(found, expected);
}

#[test]
fn a_request_of_too_many_partitions_is_refused() {
    let rows: Vec<_> = (0..=ROWS_MAX as i32)
        .map(|number| ("t", number, 0))
        .collect();
    assert!(decode_request(&request_of(&rows[..ROWS_MAX]), 11).is_ok());
    let refused = decode_request(&request_of(&rows), 11)
        .unwrap_err()
        .to_string();
    assert!(refused.contains("at most 200000 partitions"), "{refused}");
    let apart: Vec<_> = rows
        .iter()
        .map(|&(_, number, offset)| (["t", "u"][number as usize % 2], number, offset))
        .collect();
    assert!(decode_request(&request_of(&apart), 11).is_err());
}

#[test]
fn partitions_of_one_topic_share_its_entry_while_they_follow_each_other() {
    let lengths =
        |topics: &[&'static str]| lengths_of_topics(topics.iter().map(|name| name.as_bytes()));
    assert_eq!(lengths(&["a", "a", "b", "a", "a", "a"]), [2, 1, 3]);
    assert_eq!(lengths(&["", "", "a"]), [2, 1]);
    assert_eq!(lengths(&["a"]), [1]);
    assert!(lengths(&[]).is_empty());
}

#[test]
fn only_what_is_no_reader_s_daily_life_is_a_failure() {
    const NONE: i16 = 0;
    const OFFSET_OUT_OF_RANGE: i16 = 1;
    const UNKNOWN_SERVER_ERROR: i16 = -1;
    assert!(!is_failure(NONE) && !is_failure(OFFSET_OUT_OF_RANGE));
    assert!(is_failure(UNKNOWN_SERVER_ERROR));
}

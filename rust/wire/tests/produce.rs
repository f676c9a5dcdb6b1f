use proptest::prelude::*;

use super::names_field_and_position;
use crate::wire::produce::*;

type Sent = (String, i32, Option<Vec<u8>>);

fn sent() -> impl Strategy<Value = Vec<Sent>> {
    let records = proptest::option::of(proptest::collection::vec(any::<u8>(), 0..40));
    proptest::collection::vec(("[a-cé]{1,3}", any::<i32>(), records), 0..6)
}

fn encoded(version: i16, id: Option<&str>, acks: i16, timeout_ms: i32, sent: &[Sent]) -> Vec<u8> {
    let partitions: Vec<_> = sent
        .iter()
        .map(|(topic, partition, records)| PartitionRecords {
            topic,
            partition: *partition,
            records: records.as_deref(),
        })
        .collect();
    encode_request(version, id, acks, timeout_ms, &partitions).unwrap()
}

proptest! {
    #[test]
    fn requests_come_back(version in 0..=VERSION_MAX, id in proptest::option::of("[a-z]{0,9}"), acks: i16, timeout_ms: i32, sent in sent()) {
        let id = id.filter(|_| version >= 3);
        let body = encoded(version, id.as_deref(), acks, timeout_ms, &sent);
        let request = decode_request(&body, version).unwrap();
        prop_assert_eq!((request.acks, request.timeout_ms), (acks, timeout_ms));
        prop_assert_eq!(request.transactional_id.map(|range| &body[range]), id.as_deref().map(str::as_bytes));
        let back: Vec<Sent> = request
            .partitions
            .into_iter()
            .map(|data| {
                let topic = String::from_utf8(body[data.topic].to_vec()).unwrap();
                (topic, data.partition, data.records.map(|range| body[range].to_vec()))
            })
            .collect();
        prop_assert_eq!(back, sent);
    }

    #[test]
    fn responses_come_back(
        version in 0..=VERSION_MAX,
        throttle_time_ms: i32,
        rows in proptest::collection::vec(("[ab]", any::<(i32, i16, i64, i64, i64)>(), proptest::option::of("[a-z]{0,5}")), 0..6),
        record_errors in proptest::collection::vec((any::<i32>(), proptest::option::of("[a-z]{0,5}")), 0..3),
    ) {
        let results: Vec<_> = rows
            .iter()
            .map(|(topic, (partition, error_code, base, time, start), message)| PartitionResult {
                topic: topic.as_bytes(),
                partition: *partition,
                error_code: *error_code,
                base_offset: *base,
                log_append_time_ms: if version >= 2 { *time } else { -1 },
                log_start_offset: if version >= 5 { *start } else { -1 },
                record_errors: if version >= 8 { &record_errors } else { &[] },
                error_message: message.as_deref().filter(|_| version >= 8),
            })
            .collect();
        let mut body = b"head".to_vec();
        encode_response(&mut body, version, &results, throttle_time_ms);
        let body = body.strip_prefix(b"head").unwrap();
        let response = decode_response(body, version).unwrap();
        prop_assert_eq!(response.throttle_time_ms, if version >= 1 { throttle_time_ms } else { 0 });
        prop_assert_eq!(response.results.len(), results.len());
        for (back, sent) in response.results.iter().zip(&results) {
            prop_assert_eq!(&body[back.topic.clone()], sent.topic);
            prop_assert_eq!(
                (back.partition, back.error_code, back.base_offset, back.log_append_time_ms, back.log_start_offset),
                (sent.partition, sent.error_code, sent.base_offset, sent.log_append_time_ms, sent.log_start_offset)
            );
            prop_assert_eq!(&back.record_errors[..], sent.record_errors);
            prop_assert_eq!(back.error_message.as_deref(), sent.error_message);
        }
    }

    #[test]
    fn arbitrary_bytes_are_an_error_or_a_message(version in 0..=VERSION_MAX, bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        for error in [decode_request(&bytes, version).err(), decode_response(&bytes, version).err()].into_iter().flatten() {
            names_field_and_position(&error, bytes.len());
        }
    }

    #[test]
    fn a_cut_request_is_an_error(version in 0..=VERSION_MAX, sent in sent()) {
        let body = encoded(version, None, 1, 1000, &sent);
        for length in 0..body.len() {
            names_field_and_position(&decode_request(&body[..length], version).unwrap_err(), length);
        }
    }
}

#[test]
fn a_count_that_cannot_be_true_allocates_nothing() {
    // No transactional id, acks, timeout, then two thousand million topics.
    let mut body = vec![0xFF, 0xFF, 0, 1, 0, 0, 0, 9];
    body.extend_from_slice(&i32::MAX.to_be_bytes());
    assert_eq!(
        decode_request(&body, 8).unwrap_err().to_string(),
        "topics at byte 8: 2147483647 items cannot fit in the 0 bytes that are left"
    );
}

#[test]
fn a_message_of_very_many_small_items_is_refused() {
    let mut body = vec![0xFF, 0xFF, 0, 1, 0, 0, 0, 9, 0, 0, 0, 3];
    for _ in 0..3 {
        body.extend_from_slice(&[0, 1, b't']);
        body.extend_from_slice(&200_000i32.to_be_bytes());
        body.resize(body.len() + 200_000 * 8, 0);
    }
    // Three topics and twice 200,000 partitions are more than 400,000.
    assert_eq!(
        decode_request(&body, 8).unwrap_err().to_string(),
        "topics.partitions at byte 1600022: a message may not have so many items"
    );
}

#[test]
fn unknown_versions_and_what_old_ones_cannot_say() {
    assert!(decode_request(&[], 9).unwrap_err().is_local());
    assert!(decode_response(&[], -1).unwrap_err().is_local());
    let error = encode_request(2, Some("id"), 1, 0, &[]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "transactional_id: version 2 lacks this field"
    );
}

#[test]
fn a_long_message_is_cut_between_characters() {
    let message = "é".repeat(20_000);
    let result = PartitionResult {
        topic: b"t",
        partition: 0,
        error_code: 87,
        base_offset: -1,
        log_append_time_ms: -1,
        log_start_offset: -1,
        record_errors: &[],
        error_message: Some(&message),
    };
    let mut body = Vec::new();
    encode_response(&mut body, 8, &[result], 0);
    let back = decode_response(&body, 8).unwrap();
    let kept = back.results[0].error_message.as_deref().unwrap();
    assert_eq!(kept.len(), 32_766);
    assert!(message.starts_with(kept));
}

#[test]
fn only_what_is_no_producer_s_daily_life_is_a_failure() {
    const NONE: i16 = 0;
    const MESSAGE_TOO_LARGE: i16 = 10;
    const UNKNOWN_SERVER_ERROR: i16 = -1;
    assert!(!is_failure(NONE) && !is_failure(MESSAGE_TOO_LARGE));
    assert!(is_failure(UNKNOWN_SERVER_ERROR));
}

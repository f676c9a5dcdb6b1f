//! Rows read back from the batches that they became, and tables that nobody should trust.

use std::collections::BTreeMap;

use super::*;
use crate::records::{BatchOptions, Batches, Records, Scratch, validate};

/// A column's buffers, from values.
struct Column {
    validity: Vec<u8>,
    positions: Vec<u8>,
    data: Vec<u8>,
    rows: usize,
}

impl Column {
    fn new<T: AsRef<[u8]>>(values: &[Option<T>]) -> Self {
        let (mut validity, mut data) = (vec![0; values.len().div_ceil(8)], Vec::new());
        let mut positions = 0_i32.to_ne_bytes().to_vec();
        for (row, value) in values.iter().enumerate() {
            if let Some(value) = value {
                validity[row / 8] |= 1 << (row % 8);
                data.extend_from_slice(value.as_ref());
            }
            positions.extend_from_slice(&(data.len() as i32).to_ne_bytes());
        }
        Column {
            validity,
            positions,
            data,
            rows: values.len(),
        }
    }

    fn rows(&self) -> BinaryRows<'_> {
        self.slice(0)
    }

    fn slice(&self, offset: usize) -> BinaryRows<'_> {
        let (validity, rows) = (Some(&self.validity[..]), self.rows - offset);
        BinaryRows::new(
            "column",
            validity,
            &self.positions,
            &self.data,
            offset,
            rows,
        )
        .unwrap()
    }
}

fn options(batch_bytes: usize) -> RowOptions {
    RowOptions {
        batch: BatchOptions {
            producer_id: 7,
            producer_epoch: 1,
            transactional: true,
            ..BatchOptions::default()
        },
        batch_bytes,
        record_bytes_max: 1 << 20,
        memory_bytes: 1 << 20,
        seed: 0,
    }
}

fn table<'a>(value: &'a Column, topic: TopicOf<'a>) -> Rows<'a> {
    Rows {
        count: value.rows,
        topic,
        key: None,
        value: value.rows(),
        partition: None,
        headers: None,
        timestamp: None,
        now_ms: 1_000,
    }
}

type Record = (i64, Option<Vec<u8>>, Option<Vec<u8>>);

/// The records of each partition, after a check of every batch as a broker checks it.
fn read(closed: &[Closed]) -> BTreeMap<(String, i32), Vec<Record>> {
    let mut found: BTreeMap<(String, i32), Vec<Record>> = BTreeMap::new();
    let mut scratch = Scratch::default();
    for each in closed {
        validate(&each.batch, &Default::default(), &mut scratch).unwrap();
        let of = found
            .entry((each.topic.clone(), each.partition))
            .or_default();
        for batch in Batches::new(&each.batch) {
            let batch = batch.unwrap();
            let header = crate::records::BatchHeader::parse(&each.batch).unwrap();
            assert_eq!(
                header.base_sequence,
                of.len() as i32,
                "sequences follow each other"
            );
            assert_eq!(header.record_count, each.records);
            for record in Records::new(&batch, &Default::default(), &mut scratch).unwrap() {
                let record = record.unwrap();
                of.push((
                    record.timestamp_ms,
                    record.key.map(<[u8]>::to_vec),
                    record.value.map(<[u8]>::to_vec),
                ));
            }
        }
    }
    found
}

#[test]
fn keys_choose_partitions_and_batches_end_in_time() {
    let keys: Vec<_> = (0..500).map(|row| Some(format!("{}", row % 20))).collect();
    let values: Vec<_> = (0..500).map(|row| Some(format!("value {row}"))).collect();
    let (key, value) = (Column::new(&keys), Column::new(&values));
    let mut encoder = RowEncoder::new(options(400));
    encoder.add_topic("t", 3).unwrap();
    let mut rows = table(&value, TopicOf::Every("t"));
    rows.key = Some(key.rows());
    assert_eq!(encoder.append(&rows, 0), Ok(Stop::Done));
    encoder.flush().unwrap();
    let closed = encoder.take();
    assert!(closed.len() > 10 && closed.iter().all(|each| each.batch.len() <= 400));
    let found = read(&closed);
    let mut all = 0;
    for ((_, partition), records) in &found {
        for (_, key, _) in records {
            let hash = crate::murmur2::murmur2(key.as_ref().unwrap()) & i32::MAX;
            assert_eq!(hash % 3, *partition);
        }
        all += records.len();
    }
    assert_eq!(all, 500);
}

#[test]
fn rows_without_keys_take_turns_by_batches() {
    let values: Vec<_> = (0..900).map(|_| Some("x".repeat(50))).collect();
    let value = Column::new(&values);
    let mut encoder = RowEncoder::new(options(1_000));
    encoder.add_topic("t", 4).unwrap();
    encoder
        .append(&table(&value, TopicOf::Every("t")), 0)
        .unwrap();
    encoder.flush().unwrap();
    let counts: Vec<_> = read(&encoder.take()).values().map(Vec::len).collect();
    assert_eq!(counts.len(), 4);
    assert!(counts.iter().max().unwrap() - counts.iter().min().unwrap() < 20);
}

#[test]
fn a_new_topic_stops_and_a_slice_starts_where_it_does() {
    let topics = Column::new(&[Some("skipped"), Some("a"), Some("b"), Some("a")]);
    let value = Column::new(&[None, Some("1"), None, Some("3")]);
    let mut rows = table(&value, TopicOf::Column(topics.slice(1)));
    (rows.count, rows.value) = (3, value.slice(1));
    let times = [0_i64, 5_999, -1, 7_000_000].map(i64::to_ne_bytes).concat();
    rows.timestamp = Some(FixedRows::new("timestamp", Some(&[0b1011]), &times, 1, 3).unwrap());
    let mut encoder = RowEncoder::new(options(1_000));
    let mut start = 0;
    let mut asked = Vec::new();
    while let Stop::NewTopic { next_row, topic } = encoder.append(&rows, start).unwrap() {
        encoder.add_topic(&topic, 1).unwrap();
        asked.push(topic);
        start = next_row;
    }
    assert_eq!(asked, ["a", "b"]);
    encoder.flush().unwrap();
    let found = read(&encoder.take());
    let some = |text: &str| Some(text.as_bytes().to_vec());
    assert_eq!(
        found[&("a".to_owned(), 0)],
        [(5, None, some("1")), (7_000, None, some("3"))]
    );
    assert_eq!(found[&("b".to_owned(), 0)], [(1_000, None, None)]);
}

#[test]
fn memory_is_bounded() {
    let values: Vec<_> = (0..4_000).map(|_| Some("x".repeat(90))).collect();
    let value = Column::new(&values);
    let mut bounded = options(1_000);
    bounded.memory_bytes = 20_000;
    let mut encoder = RowEncoder::new(bounded);
    encoder.add_topic("t", 100).unwrap();
    let partitions: Vec<u8> = (0..4_000_i32)
        .flat_map(|row| (row % 100).to_ne_bytes())
        .collect();
    let mut rows = table(&value, TopicOf::Every("t"));
    rows.partition = Some(FixedRows::new("partition", None, &partitions, 0, 4_000).unwrap());
    let (mut start, mut all) = (0, Vec::new());
    while let Stop::Full { next_row } = encoder.append(&rows, start).unwrap() {
        let closed = encoder.take();
        let bytes: usize = closed.iter().map(|each| each.batch.len()).sum();
        assert!((20_000..42_000).contains(&bytes), "{bytes}");
        all.extend(closed);
        start = next_row;
    }
    encoder.flush().unwrap();
    all.extend(encoder.take());
    let found = read(&all);
    assert!(found.len() == 100 && found.values().all(|records| records.len() == 40));
}

#[test]
fn what_cannot_be_written_says_why() {
    let value = Column::new(&[Some(vec![0_u8; 5_000])]);
    let mut small = options(100);
    small.record_bytes_max = 4_000;
    let mut encoder = RowEncoder::new(small);
    encoder.add_topic("t", 2).unwrap();
    let mut rows = table(&value, TopicOf::Every("t"));
    let problem = encoder.append(&rows, 0).unwrap_err();
    assert_eq!(problem.code(), Some(10));
    assert!(problem.to_string().contains("5086 bytes"), "{problem}");

    let partition = 2_i32.to_ne_bytes();
    rows.partition = Some(FixedRows::new("partition", None, &partition, 0, 1).unwrap());
    small.record_bytes_max = 1 << 20;
    let mut encoder = RowEncoder::new(small);
    encoder.add_topic("t", 2).unwrap();
    let problem = encoder.append(&rows, 0).unwrap_err();
    assert!(problem.to_string().contains("has 2 partitions"));

    let null = Column::new::<&str>(&[None]);
    rows.topic = TopicOf::Column(null.rows());
    assert_eq!(encoder.append(&rows, 0), Err(RowError::NullTopic));
    assert_eq!(
        encoder.add_topic("none", 0),
        Err(RowError::EmptyTopic("none".to_owned()))
    );
}

#[test]
fn damaged_columns_are_refused() {
    let positions: Vec<u8> = [0_i32, 4, -1, 3].map(i32::to_ne_bytes).concat();
    let make = |validity, offset, rows| {
        BinaryRows::new("value", validity, &positions, b"abc", offset, rows).map(|column| {
            (0..rows)
                .map(|row| column.get(row))
                .collect::<Result<Vec<_>, _>>()
        })
    };
    assert_eq!(make(None, 0, 3).unwrap(), Err(RowError::Damaged("value")));
    for (offset, rows) in [(0, 4), (3, 1), (usize::MAX, 1), (1, usize::MAX)] {
        assert_eq!(make(None, offset, rows), Err(RowError::Damaged("value")));
    }
    assert!(make(Some(&[]), 0, 1).is_err());
    assert!(FixedRows::<8>::new("timestamp", None, &[0; 15], 0, 2).is_err());
}

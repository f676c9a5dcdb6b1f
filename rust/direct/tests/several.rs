//! Fetches of several partitions that wait.

use super::*;

/// Two partitions of one topic; the first is the rig's.
pub struct Two {
    pub rig: Rig,
    pub other: Arc<Log>,
    _folder: Folder,
}

impl Two {
    pub fn new() -> Self {
        let folder = Folder::new();
        let other = folder.open(LogConfig::default(), true);
        other.begin_epoch(EPOCH).unwrap();
        Self {
            rig: Rig::new(),
            other,
            _folder: folder,
        }
    }

    pub fn grant(&self) -> [OneLease; 2] {
        let other = Lease::new(TOPIC, 1, Arc::clone(&self.other), TERMS, "owner");
        let other = self.rig.direct.grant(&self.rig.hub, other);
        [self.rig.grant(TERMS), other]
    }

    /// Appends a record, as another thread does.
    pub fn write(&self, lease: &OneLease) {
        append_in_epoch(&lease.log);
        lease.log.advance_high_watermark();
        self.rig.direct.advanced(&self.rig.hub, lease);
    }
}

fn body(asked: &Fetch, offsets: [i64; 2]) -> Vec<u8> {
    let request = RequestToSend {
        cluster_id: None,
        replica_id: -1,
        max_wait_ms: asked.wait_ms,
        min_bytes: asked.min_bytes,
        max_bytes: asked.max_bytes,
        isolation_level: asked.isolation_level,
        session_id: 0,
        session_epoch: -1,
        rack_id: "",
    };
    let row = |partition| PartitionToFetch {
        topic: TOPIC,
        partition,
        current_leader_epoch: -1,
        fetch_offset: offsets[usize::try_from(partition).unwrap()],
        last_fetched_epoch: -1,
        log_start_offset: -1,
        bytes_max: asked.partition_bytes,
    };
    fetch::encode_request(asked.version, &request, &[row(0), row(1)], &[]).unwrap()
}

fn waits() -> Fetch {
    Fetch {
        wait_ms: 600_000,
        ..Fetch::default()
    }
}

/// Of each partition in turn: its number, its high watermark, and bytes of records.
fn hears(client: &mut Client) -> Option<Vec<(i32, i64, usize)>> {
    let body = client.answer(FETCH, 12)?;
    let answer = fetch::decode_response(&body, 12).unwrap();
    let rows = answer.partitions.into_iter().map(|one| {
        assert_eq!(one.error_code, 0);
        let records = one.records.unwrap_or_default();
        (one.partition, one.high_watermark, records.len())
    });
    Some(rows.collect())
}

#[test]
fn each_of_its_partitions_ends_a_wait() {
    let two = Two::new();
    let leases = two.grant();
    let rig = &two.rig;
    let size = batch(&["v"], 1000).len();
    let mut client = rig.connect();
    client.send(FETCH, 12, &body(&waits(), [0, 0]));
    rig.wait_for_waiting(1);
    // The one that did not move has nothing new.
    rig.direct.advanced(&rig.hub, &leases[0]);
    assert_eq!(rig.direct.waiting(), 1);
    two.write(&leases[1]);
    assert_eq!(hears(&mut client), Some(vec![(0, 0, 0), (1, 1, size)]));
    client.send(FETCH, 12, &body(&waits(), [0, 1]));
    rig.wait_for_waiting(1);
    assert!(rig.connect().produce(&Produce::default()).is_some());
    assert_eq!(hears(&mut client), Some(vec![(0, 1, size), (1, 1, 0)]));
    rig.wait_for_waiting(0);
    let soon = Fetch {
        wait_ms: 10,
        ..waits()
    };
    client.send(FETCH, 12, &body(&soon, [1, 1]));
    assert_eq!(hears(&mut client), Some(vec![(0, 1, 0), (1, 1, 0)]));
    assert_eq!(rig.handed_on(), 0);
    // Nobody adds up what each of them has more.
    let more = Fetch {
        min_bytes: 2,
        ..waits()
    };
    client.send(FETCH, 12, &body(&more, [1, 1]));
    assert_eq!(hears(&mut client), None);
}

#[test]
fn the_end_of_one_of_its_leases_ends_a_wait() {
    let two = Two::new();
    let rig = &two.rig;
    for ended in [0, 1] {
        let leases = two.grant();
        let mut client = rig.connect();
        client.send(FETCH, 12, &body(&waits(), [0, 0]));
        rig.wait_for_waiting(1);
        assert!(rig.direct.end(&rig.hub, &leases[ended]).is_empty());
        assert_eq!(hears(&mut client), Some(vec![(0, 0, 0), (1, 0, 0)]));
        rig.wait_for_waiting(0);
        client.send(FETCH, 12, &body(&waits(), [0, 0]));
        assert_eq!(hears(&mut client), None);
    }
}

#[test]
fn no_record_and_no_wait_is_lost_between_threads() {
    const RECORDS: i64 = 300;
    let two = Two::new();
    let leases = two.grant();
    thread::scope(|scope| {
        for lease in &leases {
            let two = &two;
            scope.spawn(move || (0..RECORDS).for_each(|_| two.write(lease)));
        }
        let mut client = two.rig.connect();
        let asked = Fetch {
            wait_ms: 15_000,
            partition_bytes: 1,
            ..Fetch::default()
        };
        let mut offsets = [0, 0];
        let start = Instant::now();
        while offsets != [RECORDS; 2] {
            assert!(start.elapsed() < Duration::from_secs(14), "{offsets:?}");
            client.send(FETCH, 12, &body(&asked, offsets));
            for (partition, high_watermark, bytes) in hears(&mut client).unwrap() {
                let offset = &mut offsets[usize::try_from(partition).unwrap()];
                assert!(bytes == 0 || high_watermark > *offset);
                *offset += i64::from(bytes > 0);
            }
        }
    });
    two.rig.wait_for_waiting(0);
    assert_eq!(two.rig.handed_on(), 0);
}

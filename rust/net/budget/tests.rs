use std::net::IpAddr;

use proptest::prelude::*;

use super::*;

const MIB: usize = 1 << 20;

fn budget(queued_bytes_max: usize, frame_bytes_max: usize) -> Budget {
    let wake = Arc::new(Wake::new().unwrap());
    Budget::new(Bounds::new(queued_bytes_max, frame_bytes_max), wake)
}

#[test]
fn the_parts_of_the_default_lie_inside_it() {
    let bounds = Bounds::new(256 * MIB, 100 * MIB);
    let frames = bounds.common + bounds.small + bounds.brokers + bounds.lane;
    assert!(
        frames <= 256 * MIB && bounds.common > 128 * MIB,
        "{bounds:?}"
    );
    assert_eq!(bounds.answers, 64 * MIB);
}

#[test]
fn small_settings_and_none() {
    // Kafka wants `queued.max.request.bytes` to be one frame at least.
    let least = Bounds::new(100 * MIB, 100 * MIB);
    assert_eq!((least.common, least.lane), (50 * MIB, 100 * MIB));
    let none = Bounds::new(i64::MAX as usize, 100 * MIB);
    assert!(none.common > (i64::MAX as usize) / 2);
}

#[test]
fn reserves_are_for_those_whose_they_are() {
    let budget = budget(1000 * MIB, 100 * MIB);
    let Bounds {
        common,
        small,
        brokers,
        ..
    } = *budget.bounds();
    let kinds = [Kind::Large, Kind::Small, Kind::Broker];
    let have_room = || kinds.map(|kind| budget.has_room(kind, 1));
    budget.charge(Account::Frames, common - 1);
    assert_eq!(have_room(), [true, true, true]);
    budget.charge(Account::Frames, 1);
    assert_eq!(have_room(), [false, true, true]);
    budget.charge(Account::Frames, small);
    assert_eq!(have_room(), [false, false, true]);
    budget.charge(Account::Frames, brokers);
    assert_eq!(have_room(), [false, false, false]);
    // What is in the lane takes nobody's room.
    budget.release(Account::Frames, small + brokers + 1);
    budget.charge(Account::Lane, 100 * MIB);
    assert_eq!(have_room(), [true, true, true]);
    assert!(!budget.is_lane_empty());
}

#[test]
fn a_frame_stands_still_when_nothing_or_a_trickle_comes() {
    let mut moves = Moves::begin(1000);
    assert!(!moves.is_still(0, 1000 + STALL_MS - 1));
    assert!(moves.is_still(0, 1000 + STALL_MS));
    assert!(
        !moves.is_still(20_000, 1000 + STALL_MS),
        "more is there to be read"
    );
    moves.add(20_000, 1300);
    assert!(!moves.is_still(0, 1300 + STALL_MS - 1));
    for at in 1300..2300 {
        moves.add(1, at);
    }
    assert!(moves.is_still(0, 2300));
}

#[test]
fn the_clock_stands_still_while_nobody_reads() {
    let mut moves = Moves::begin(0);
    moves.stop(100);
    moves.stop(200);
    assert!(!moves.is_still(0, 60_000));
    assert_eq!(moves.age_ms(60_000), 100);
    moves.go_on(60_000);
    assert!(!moves.is_still(0, 60_000 + STALL_MS - 101));
    assert!(moves.is_still(0, 60_000 + STALL_MS - 100));
    assert_eq!(moves.age_ms(61_000), 1100);
    assert_eq!(deadline_ms(100_000_000), 130_000);
}

#[test]
fn who_takes_little_at_a_time_is_late_and_who_takes_much_is_not() {
    let (mut slow, mut quick) = (Moves::begin(0), Moves::begin(0));
    for second in 1..100 {
        slow.add(40_000, second * 1000);
        quick.add(2_000_000, second * 1000);
    }
    let left = 10_000_000;
    assert!(!slow.is_late(left, 40_000) && slow.is_late(left, 45_000));
    assert!(!quick.is_late(left, 100_000));
}

#[test]
fn the_largest_are_closed_and_no_more_than_needed() {
    let holders = |bytes: &[usize]| {
        let numbered = bytes.iter().zip(0..);
        numbered
            .map(|(&bytes, connection)| Holder { connection, bytes })
            .collect::<Vec<_>>()
    };
    let closed = |needed| -> Vec<usize> {
        let all = victims(holders(&[5, 50, 20, 1]), Relief { bytes: needed });
        all.iter().map(|holder| holder.bytes).collect()
    };
    assert_eq!(closed(0), Vec::<usize>::new());
    assert_eq!(closed(50), [50]);
    assert_eq!(closed(51), [50, 20]);
    assert_eq!(closed(1000), [50, 20, 5, 1]);
}

#[test]
fn an_address_has_its_part_if_there_are_others() {
    let [one, other]: [IpAddr; 2] = ["10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap()];
    let shortages = Shortages::of(1);
    shortages.own(0).count(0, [(one, 60)].into_iter());
    let allow = |address, bytes| shortages.allow(address, bytes, 50, 0);
    assert!(allow(one, 40), "alone");
    shortages.own(0).add(other, 0);
    assert!(!allow(one, 1));
    assert!(allow(other, 50) && !allow(other, 51));
    assert!(allow("::ffff:10.0.0.2".parse().unwrap(), 50));
    let shares = shortages.own(0);
    assert!(!shares.is_old(TICK_MS - 1) && shares.is_old(TICK_MS));
}

/// A frame of a model of the hub.
#[derive(Debug)]
struct Frame {
    length: usize,
    taken: usize,
    filled: usize,
    account: Account,
}

const QUEUED: usize = 10 * MIB;
const LONGEST: usize = 4 * MIB;

/// What the hub does with a frame that has more to come.
fn receive(budget: &Budget, frame: &mut Frame, bytes: usize) -> bool {
    if frame.filled == frame.length {
        return true;
    }
    if frame.filled == frame.taken {
        let next = frame.length.min((4 * frame.filled).max(64 << 10));
        if budget.has_room(Kind::Large, next - frame.taken) {
            budget.charge(Account::Frames, next);
            budget.release(frame.account, frame.taken);
            frame.taken = next;
        } else if budget.is_lane_empty() {
            budget.charge(Account::Lane, frame.length);
            budget.release(frame.account, frame.taken);
            (frame.taken, frame.account) = (frame.length, Account::Lane);
        } else {
            return false;
        }
    }
    frame.filled += bytes.min(frame.taken - frame.filled);
    true
}

proptest! {
    #[test]
    fn frames_of_any_kind_stay_below_the_bound_and_all_complete(
        steps in prop::collection::vec((0..3usize, any::<prop::sample::Index>(), 1..LONGEST), 1..300),
    ) {
        let budget = budget(QUEUED, LONGEST);
        let mut frames: Vec<Frame> = Vec::new();
        for (step, which, bytes) in steps {
            if step == 0 || frames.is_empty() {
                let taken = bytes.min(64 << 10);
                if budget.has_room(Kind::Large, taken) {
                    budget.charge(Account::Frames, taken);
                    let account = Account::Frames;
                    frames.push(Frame { length: bytes, taken, filled: 0, account });
                }
            } else if step == 1 {
                receive(&budget, which.get_mut(&mut frames), bytes);
            } else {
                let frame = frames.swap_remove(which.index(frames.len()));
                budget.release(frame.account, frame.taken);
            }
            prop_assert!(budget.used() <= QUEUED, "{} of {QUEUED}", budget.used());
            prop_assert!(budget.frames() <= budget.bounds().common);
        }
        // All come to their end, whatever they hold of each other's memory: in each round one completes.
        while !frames.is_empty() {
            for frame in &mut frames {
                while frame.filled < frame.length && receive(&budget, frame, LONGEST) {}
            }
            let before = frames.len();
            frames.retain(|frame| {
                let is_complete = frame.filled == frame.length;
                if is_complete {
                    budget.release(frame.account, frame.taken);
                }
                !is_complete
            });
            prop_assert!(frames.len() < before);
        }
        prop_assert_eq!(budget.used(), 0);
    }
}

#[test]
fn one_hub_has_the_lane() {
    let budget = budget(1000, 100);
    assert!(budget.take_lane(0));
    assert!(!budget.take_lane(1));
    budget.leave_lane(1);
    assert!(!budget.take_lane(1), "the other one has it still");
    budget.charge(Account::Lane, 10);
    budget.leave_lane(0);
    assert!(!budget.take_lane(1), "its frame is in use");
    budget.release(Account::Lane, 10);
    assert!(budget.take_lane(1));
}

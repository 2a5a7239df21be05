use super::*;
use crate::{message::ClientId, outbox::LaneFound};

fn at(seconds: i64) -> OffsetDateTime {
    OffsetDateTime::UNIX_EPOCH + time::Duration::seconds(1_000_000 + seconds)
}

fn lane(id: i32, chain: &str, priority: Priority) -> Lane {
    let client = ClientId::new(&format!("client {id}"));
    Lane { id: LaneId::new(id), chain: chain.to_owned(), priority, client, paused: false }
}

/// Rows that wait, by lane, and a book about them.
struct Shop {
    book: LaneBook,
    waiting: BTreeMap<LaneId, usize>,
    now: OffsetDateTime,
}

impl Shop {
    /// A shop whose lanes have these priorities, and numbers from 1. Nothing waits.
    fn new(priorities: &[Priority]) -> Self {
        let mut book = LaneBook::default();
        let lanes = (1..).zip(priorities).map(|(id, priority)| lane(id, "default", *priority));
        book.learn(lanes.map(|lane| LaneSeen { lane, earliest: None }).collect(), at(0));
        Self { book, waiting: BTreeMap::new(), now: at(0) }
    }

    fn accept(&mut self, lane: i32, messages: usize) {
        *self.waiting.entry(LaneId::new(lane)).or_insert(0) += messages;
        assert!(self.book.expect(LaneId::new(lane), self.now, self.now));
    }

    fn rooms(&self, places: usize) -> BTreeMap<String, Room> {
        BTreeMap::from([("default".to_owned(), Room { provider: ProviderName::new("primary"), places })])
    }

    /// What a claim of so many takes of each lane.
    fn claim(&mut self, messages: usize) -> BTreeMap<i32, usize> {
        let deal = self.book.deal(messages, &self.rooms(1000), self.now);
        let (mut lanes, mut taken, mut left) = (Vec::new(), BTreeMap::new(), deal.messages);
        for asked in &deal.lanes {
            if left == 0 {
                break;
            }
            let waiting = self.waiting.entry(asked.lane).or_insert(0);
            let found = asked.limit.min(*waiting).min(left);
            *waiting -= found;
            left -= found;
            let rest = if found < asked.limit && left > 0 { Rest::Nothing } else { Rest::From(self.now) };
            lanes.push(LaneFound { lane: asked.lane, found, rest });
            taken.insert(asked.lane.as_i32(), found);
        }
        taken.retain(|_, found| *found > 0);
        self.book.note(&deal, &Claims { messages: Vec::new(), lanes, at: self.now, made_again: false });
        taken
    }

    /// What so many claims of one take of each lane.
    fn claim_one_by_one(&mut self, claims: usize) -> BTreeMap<i32, usize> {
        let mut taken = BTreeMap::new();
        for _ in 0..claims {
            for (lane, found) in self.claim(1) {
                *taken.entry(lane).or_insert(0) += found;
            }
        }
        taken
    }
}

#[test]
fn priorities_share_by_weight() {
    for one_by_one in [false, true] {
        let mut shop = Shop::new(&[Priority::High, Priority::Normal, Priority::Bulk]);
        for lane in 1..=3 {
            shop.accept(lane, 1000);
        }
        let taken = if one_by_one { shop.claim_one_by_one(130) } else { shop.claim(130) };
        assert_eq!(taken, BTreeMap::from([(1, 80), (2, 40), (3, 10)]), "one by one: {one_by_one}");
    }
}

#[test]
fn the_lanes_of_a_priority_share_its_weight_equally() {
    for one_by_one in [false, true] {
        let mut shop = Shop::new(&[Priority::High, Priority::Bulk, Priority::Bulk, Priority::Bulk, Priority::Bulk]);
        for lane in 1..=5 {
            shop.accept(lane, 1000);
        }
        let taken = if one_by_one { shop.claim_one_by_one(360) } else { shop.claim(360) };
        assert_eq!(taken, BTreeMap::from([(1, 320), (2, 10), (3, 10), (4, 10), (5, 10)]));
    }
}

#[test]
fn a_client_that_floods_does_not_delay_another() {
    let mut shop = Shop::new(&[Priority::Normal, Priority::Normal]);
    shop.accept(1, 100_000);
    for _ in 0..50 {
        shop.claim(100);
    }
    shop.accept(2, 3);
    let taken = shop.claim(10);
    assert_eq!(taken, BTreeMap::from([(1, 5), (2, 3)]), "its share, and no less for what the other had before");
    shop.accept(2, 1);
    assert_eq!(shop.claim_one_by_one(2).get(&2), Some(&1), "it waits for one message of the other at most");
}

#[test]
fn a_lane_that_comes_back_is_owed_nothing() {
    let mut shop = Shop::new(&[Priority::Normal, Priority::Normal]);
    shop.accept(1, 1_000_000);
    for _ in 0..1000 {
        shop.claim(100);
    }
    shop.accept(2, 1_000_000);
    assert_eq!(shop.claim(100), BTreeMap::from([(1, 50), (2, 50)]));
}

#[test]
fn what_a_lane_leaves_goes_to_those_beside() {
    let mut shop = Shop::new(&[Priority::High, Priority::Bulk, Priority::Bulk]);
    // Told of, but taken by somebody else.
    shop.accept(1, 0);
    shop.accept(2, 1);
    shop.accept(3, 1);
    assert_eq!(shop.claim(2), BTreeMap::from([(2, 1), (3, 1)]));
}

#[test]
fn a_thousand_lanes_are_all_looked_at_by_one_claim_and_each_in_turn() {
    let mut shop = Shop::new(&[Priority::Normal; 1000]);
    for lane in 1..=1000 {
        shop.accept(lane, 2);
    }
    assert_eq!(shop.book.deal(100, &shop.rooms(1000), shop.now).lanes.len(), 1000);
    let mut taken: BTreeMap<i32, usize> = BTreeMap::new();
    for _ in 0..10 {
        for (lane, found) in shop.claim(100) {
            *taken.entry(lane).or_insert(0) += found;
        }
    }
    assert!(taken.len() == 1000 && taken.values().all(|found| *found == 1), "everybody once before anybody twice");
}

#[test]
fn no_more_is_asked_for_than_a_chain_has_room_for() {
    let mut book = LaneBook::default();
    let seen = |id, chain: &str| LaneSeen { lane: lane(id, chain, Priority::Normal), earliest: Some(at(0)) };
    book.learn(vec![seen(1, "slow"), seen(2, "slow"), seen(3, "quick"), seen(4, "away")], at(0));
    let room = |places| Room { provider: ProviderName::new("its first"), places };
    let rooms = BTreeMap::from([("slow".to_owned(), room(3)), ("quick".to_owned(), room(50))]);
    let deal = book.deal(20, &rooms, at(1));
    assert_eq!(deal.messages, 20);
    let limits: BTreeMap<i32, usize> = deal.lanes.iter().map(|asked| (asked.lane.as_i32(), asked.limit)).collect();
    assert_eq!(limits, BTreeMap::from([(1, 2), (2, 1), (3, 17)]));

    let full = BTreeMap::from([("slow".to_owned(), room(0))]);
    assert_eq!(book.deal(20, &full, at(1)), Deal::default());
    assert!(book.is_waiting(&full, at(1)), "it waits for a place");
}

#[test]
fn a_lane_is_read_from_a_second_before_its_position() {
    let mut shop = Shop::new(&[Priority::Normal]);
    let since = |shop: &mut Shop| {
        shop.book.mark_all();
        shop.book.deal(1, &shop.rooms(9), shop.now).lanes[0].since
    };
    assert_eq!(since(&mut shop), None, "from its beginning as long as nothing is known");
    shop.claim(1);
    shop.now = at(1);
    assert_eq!(since(&mut shop), Some(at(-1)));
    shop.now = at(60);
    shop.accept(1, 1);
    shop.claim(1);
    shop.now = at(61);
    assert_eq!(since(&mut shop), Some(at(59)));

    let hidden = LaneSeen { lane: lane(1, "default", Priority::Normal), earliest: Some(at(7)) };
    shop.book.learn(vec![hidden], at(0));
    assert_eq!(since(&mut shop), Some(at(6)), "something lies behind the position");
}

#[test]
fn claims_that_follow_each_other_quickly_read_less_back_and_the_last_is_followed_by_one_that_reads_more() {
    let mut shop = Shop::new(&[Priority::Normal]);
    let ms = |ms| at(0) + time::Duration::milliseconds(ms);
    let since = |shop: &mut Shop, now| {
        shop.now = now;
        shop.accept(1, 1);
        let since = shop.book.deal(1, &shop.rooms(9), now).lanes[0].since;
        shop.claim(9);
        since
    };
    assert_eq!(since(&mut shop, ms(0)), None);
    assert_eq!(since(&mut shop, ms(30)), Some(ms(-100)));
    assert_eq!(shop.book.next_due(ms(30)), Some(ms(130)), "what is committed late is looked for then");
    assert_eq!(since(&mut shop, ms(99)), Some(ms(-70)));
    assert_eq!(since(&mut shop, ms(110)), Some(ms(99 - 1000)));
    shop.now = ms(130);
    shop.claim(9);
    shop.now = ms(300);
    shop.claim(9);
    assert_eq!(shop.book.next_due(ms(300)), None, "and then it is over");
}

#[test]
fn what_is_due_later_is_met_in_time_and_forgotten_when_it_was_seen() {
    let mut shop = Shop::new(&[Priority::Normal]);
    let (first, rooms) = (LaneId::new(1), shop.rooms(9));
    for due in [9, 5, 7] {
        assert!(shop.book.expect(first, at(due), shop.now));
    }
    assert!(!shop.book.expect(LaneId::new(77), at(0), shop.now), "nobody knows that lane");
    assert_eq!(shop.book.next_due(shop.now), Some(at(5)));
    assert!(!shop.book.is_waiting(&rooms, at(4)) && shop.book.is_waiting(&rooms, at(5)));
    // By the database's clock it is not time yet.
    shop.now = at(5);
    let deal = shop.book.deal(1, &rooms, shop.now);
    let lanes = vec![LaneFound { lane: first, found: 0, rest: Rest::Nothing }];
    shop.book.note(&deal, &Claims { messages: Vec::new(), lanes, at: at(4), made_again: false });
    assert!(shop.book.is_waiting(&rooms, shop.now), "it is asked again");
    shop.claim(1);
    assert_eq!(shop.book.next_due(shop.now), Some(at(7)));
}

#[test]
fn what_comes_after_a_due_time_that_was_looked_up_is_asked_for() {
    let mut shop = Shop::new(&[Priority::Normal]);
    let rooms = shop.rooms(9);
    let seen = LaneSeen { lane: lane(1, "default", Priority::Normal), earliest: Some(at(5)) };
    shop.book.learn(vec![seen], at(0));
    assert_eq!(shop.book.next_due(shop.now), Some(at(5)));
    assert!(shop.book.unknown(&rooms, shop.now).is_empty());
    shop.now = at(5);
    shop.claim(1);
    let asked = shop.book.unknown(&rooms, shop.now);
    assert_eq!(asked, [(LaneId::new(1), at(5))]);
    shop.book.note_next_due(&asked, vec![(LaneId::new(1), at(8))]);
    assert_eq!(shop.book.next_due(shop.now), Some(at(8)));
    shop.now = at(8);
    shop.claim(1);
    let asked = shop.book.unknown(&rooms, shop.now);
    shop.book.note_next_due(&asked, Vec::new());
    assert_eq!((shop.book.next_due(shop.now), shop.book.unknown(&rooms, shop.now)), (None, Vec::new()));
}

#[test]
fn of_many_due_times_the_next_are_remembered_and_the_rest_is_asked_for() {
    let mut shop = Shop::new(&[Priority::Normal]);
    for due in (1..=2 * LATER_AT_MOST as i64).rev() {
        shop.book.expect(LaneId::new(1), at(due), shop.now);
    }
    assert_eq!(shop.book.next_due(shop.now), Some(at(1)));
    assert_eq!(shop.book.lanes[&LaneId::new(1)].later.len(), LATER_AT_MOST);
    assert_eq!(shop.book.unknown(&shop.rooms(9), shop.now).len(), 1);
}

#[test]
fn a_paused_lane_is_not_claimed_from_but_swept() {
    let mut shop = Shop::new(&[Priority::Normal, Priority::Normal]);
    shop.accept(1, 5);
    shop.accept(2, 5);
    let pause =
        |paused| LaneSeen { lane: Lane { paused, ..lane(1, "default", Priority::Normal) }, earliest: Some(at(0)) };
    shop.book.learn(vec![pause(true)], at(0));
    let rooms = shop.rooms(9);
    assert_eq!(shop.book.closed(&rooms, &rooms, shop.now), [LaneId::new(1)]);
    assert_eq!(shop.claim(100), BTreeMap::from([(2, 5)]));
    assert!(!shop.book.is_waiting(&rooms, shop.now));
    shop.book.learn(vec![pause(false)], at(0));
    assert_eq!(shop.claim(100), BTreeMap::from([(1, 5)]));
}

/// Since when the only lane is claimed from.
fn since_of(book: &mut LaneBook, now: OffsetDateTime) -> OffsetDateTime {
    let rooms = BTreeMap::from([("default".to_owned(), Room { provider: ProviderName::new("primary"), places: 9 })]);
    let deal = book.deal(9, &rooms, now);
    assert_eq!(deal.lanes.len(), 1);
    deal.lanes[0].since.unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

#[test]
fn what_is_due_later_does_not_hide_what_comes_now() {
    let mut book = LaneBook::default();
    // A lease, or a scheduled message, is all there is.
    book.learn(vec![LaneSeen { lane: lane(1, "default", Priority::Normal), earliest: Some(at(30)) }], at(0));
    assert!(book.expect(LaneId::new(1), at(1), at(1)));
    assert!(since_of(&mut book, at(1)) <= at(1));
}

#[test]
fn what_is_committed_long_after_it_was_due_is_seen_by_who_is_told_of_it() {
    let mut book = LaneBook::default();
    book.learn(vec![LaneSeen { lane: lane(1, "default", Priority::Normal), earliest: None }], at(0));
    assert!(book.expect(LaneId::new(1), at(10), at(10)));
    let rooms = BTreeMap::from([("default".to_owned(), Room { provider: ProviderName::new("primary"), places: 9 })]);
    let deal = book.deal(9, &rooms, at(10));
    let found = LaneFound { lane: LaneId::new(1), found: 0, rest: Rest::Nothing };
    book.note(&deal, &Claims { messages: Vec::new(), lanes: vec![found], at: at(10), made_again: false });
    // It waited in a queue, or was stored again after a lost connection.
    assert!(book.expect(LaneId::new(1), at(6), at(11)));
    assert!(since_of(&mut book, at(11)) <= at(6));
}

#[test]
fn what_was_told_of_a_moment_ago_may_be_overtaken_and_what_was_left_behind_may_not() {
    const MOMENT: Duration = Duration::from_millis(50);
    let lane = LaneId::new(1);
    let mut shop = Shop::new(&[Priority::Normal]);
    assert!(shop.book.lets_in(lane, shop.now, MOMENT), "nothing waits");
    assert!(!shop.book.lets_in(LaneId::new(2), shop.now, MOMENT), "nobody knows what waits there");

    shop.accept(1, 3);
    assert!(shop.book.lets_in(lane, shop.now, MOMENT), "it is about to be claimed");
    assert!(!shop.book.lets_in(lane, shop.now + MOMENT, MOMENT), "it should have been");
    shop.claim(2);
    assert!(!shop.book.lets_in(lane, shop.now, MOMENT), "the claim left one behind");
    shop.claim(2);
    assert!(shop.book.lets_in(lane, shop.now, MOMENT), "nothing waits any more");

    shop.now = at(1);
    shop.claim(2);
    let due_at = at(10);
    assert!(shop.book.expect(lane, due_at, shop.now));
    assert!(shop.book.lets_in(lane, due_at, MOMENT), "what is due later is due now");
    assert!(!shop.book.lets_in(lane, due_at + MOMENT, MOMENT), "it should have been claimed");

    let normal = super::tests::lane(1, "default", Priority::Normal);
    shop.book.learn(vec![LaneSeen { lane: Lane { paused: true, ..normal }, earliest: None }], shop.now);
    assert!(!shop.book.lets_in(lane, shop.now, MOMENT), "paused");
}

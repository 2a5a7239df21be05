//! Processes that stand still for longer than their leases, and go on as if nothing had happened.

use std::time::Duration;

use futures_util::future::join_all;
use secrecy::ExposeSecret;
use tokio::time::sleep;

use super::{
    Form,
    fleet::{Fleet, Member},
    ledger::Ledger,
    load::Load,
};
use crate::support::{postgres::Database, slow_provider::Protocol};

/// How many milliseconds a process works between two pauses.
const WORKS: std::ops::RangeInclusive<u64> = 100..=1_000;
/// How long a pause is; a lease lasts two seconds.
const PAUSE: Duration = Duration::from_secs(3);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_though_processes_stand_still_and_their_outcomes_come_late() {
    let form = Form::chosen();
    let database = Database::new().await;
    let fleet = Fleet::start(database.url.expose_secret(), Protocol::Http).await;
    let load = Load::start(&fleet.ground);
    // One of them goes on all the time, to take over from the others.
    join_all(fleet.members[1..].iter().map(|member| pause_again_and_again(member, form.of(1, 12)))).await;
    let ledger = Ledger::close(&fleet.ground, load.stop().await).await;

    let sums = ledger.check();
    form.report("pauses", &sums);
    assert!(sums.late_outcomes > 0, "no outcome came late: this proves nothing");
    fleet.finish().await;
}

async fn pause_again_and_again(member: &Member, times: usize) {
    for _ in 0..times {
        sleep(Duration::from_millis(rand::random_range(WORKS))).await;
        member.is_waiting_for_an_answer().await;
        member.pause(PAUSE).await;
    }
}

//! Processes that are killed and started again, several at once.

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

/// What a kill met: the messages that the provider had accepted, while no outcome was written down.
type Caught = Vec<String>;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_though_processes_are_killed_that_speak_to_a_gateway() {
    kill_under_load("kills, gateway", Protocol::Http).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_though_processes_are_killed_that_speak_to_a_relay() {
    kill_under_load("kills, relay", Protocol::Smtp).await;
}

async fn kill_under_load(what: &str, protocol: Protocol) {
    let form = Form::chosen();
    let database = Database::new().await;
    let Fleet { ground, members } = Fleet::start(database.url.expose_secret(), protocol).await;
    let load = Load::start(&ground);
    let killing = members.into_iter().map(|member| kill_again_and_again(member, form));
    let (members, kills): (Vec<Member>, Vec<Vec<Caught>>) = join_all(killing).await.into_iter().unzip();
    let kills = kills.concat();
    let ledger = Ledger::close(&ground, load.stop().await).await;

    let sums = ledger.check();
    for id in kills.iter().flatten() {
        assert!(ledger.has_unknown(id), "{id} was accepted and its process killed, of which its history says nothing");
    }
    let between = kills.iter().filter(|caught| !caught.is_empty()).count();
    form.report(what, &format_args!("{} kills, {between} between acceptance and settle; {sums}", kills.len()));
    assert!(kills.len() >= form.of(8, 60));
    assert!(between >= 1, "no kill came between acceptance and settle: this proves nothing");
    let arrived = ground.provider.arrivals().len();
    Fleet { ground: ground.clone(), members }.finish().await;
    assert_eq!(ground.provider.arrivals().len(), arrived, "something was sent after all was finished");
}

/// Kills it and starts it again, many times: every other time while it waits for an answer, else at any moment.
async fn kill_again_and_again(mut member: Member, form: Form) -> (Member, Vec<Caught>) {
    let (times, longest_life) = form.of((2, 800), (16, 3_000));
    let mut kills = Vec::new();
    for nth in 0..times {
        sleep(Duration::from_millis(rand::random_range(100..=longest_life))).await;
        if nth % 2 == 0 {
            member.is_waiting_for_an_answer().await;
        }
        let (fallen, caught) = member.kill().await;
        kills.push(caught);
        member = fallen.rise().await;
    }
    (member, kills)
}

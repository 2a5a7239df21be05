//! Callers who send all the time: each email until it is accepted, by whichever process is there.

use std::{sync::Arc, time::Duration};

use postrider::proto::v1::SendEmailRequest;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tonic::Code;

use super::fleet::Ground;
use crate::support::caller::{PATIENCE, email_to, held};

/// How many there are.
const CALLERS: usize = 6;
/// How many milliseconds a caller rests between two emails.
const RESTS: std::ops::RangeInclusive<u64> = 1..=100;
/// How long a caller waits for an answer before it asks somebody else.
const ANSWER: Duration = Duration::from_secs(2);
/// One in so many emails is sent again although it was accepted.
const REPEATED: usize = 10;
/// One in so many is under HOLD, where that does not mean that a person gets it: a gateway says that it knows its keys.
const HELD: usize = 4;

/// The callers.
pub struct Load {
    stop: CancellationToken,
    callers: JoinSet<Accepted>,
}

/// What the callers know.
#[derive(Default)]
pub struct Accepted {
    /// The messages' ids, one for each email.
    pub ids: Vec<String>,
    /// How many calls failed and were made again.
    pub failed_calls: usize,
}

impl Load {
    pub fn start(ground: &Arc<Ground>) -> Self {
        let stop = CancellationToken::new();
        let callers = (0..CALLERS).map(|caller| send_until(stop.clone(), ground.clone(), caller)).collect();
        Self { stop, callers }
    }

    /// Lets every caller bring its last email home.
    pub async fn stop(self) -> Accepted {
        self.stop.cancel();
        let mut all = Accepted::default();
        for accepted in self.callers.join_all().await {
            all.ids.extend(accepted.ids);
            all.failed_calls += accepted.failed_calls;
        }
        all
    }
}

async fn send_until(stop: CancellationToken, ground: Arc<Ground>, caller: usize) -> Accepted {
    let mut accepted = Accepted::default();
    while !stop.is_cancelled() {
        let nth = accepted.ids.len();
        let request = email_to(&format!("reader-{caller}-{nth}@example.net"));
        let request = if ground.knows_keys() && nth % HELD == 1 { held(request) } else { request };
        let id = send(&ground, &request, &mut accepted.failed_calls).await;
        if nth % REPEATED == 0 {
            let again = send(&ground, &request, &mut accepted.failed_calls).await;
            assert_eq!(again, id, "one key, two messages");
        }
        accepted.ids.push(id);
        sleep(Duration::from_millis(rand::random_range(RESTS))).await;
    }
    accepted
}

/// Sends until it is accepted, each time to any of the processes.
async fn send(ground: &Ground, request: &SendEmailRequest, failed_calls: &mut usize) -> String {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let failure = match timeout(ANSWER, ground.any_caller().try_send(request.clone())).await {
            Ok(Ok(id)) => return id,
            Ok(Err(status)) => {
                assert!(may_be_repeated(&status), "{status:?}");
                status.to_string()
            }
            Err(_) => "no answer".to_owned(),
        };
        assert!(Instant::now() < deadline, "it is never accepted: {failure}");
        *failed_calls += 1;
        sleep(Duration::from_millis(20)).await;
    }
}

/// Whether the service says so, or the connection broke before it could say anything.
fn may_be_repeated(status: &tonic::Status) -> bool {
    let broke = std::error::Error::source(status).is_some();
    broke || matches!(status.code(), Code::Unavailable | Code::DeadlineExceeded | Code::ResourceExhausted)
}

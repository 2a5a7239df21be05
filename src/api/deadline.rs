//! Deadlines: a call that takes too long is answered DEADLINE_EXCEEDED.
//!
//! Owns the answer, not the work: what a call began in a task of its own goes on.
//!
//! tonic ends a call at the caller's `grpc-timeout` by itself, with CANCELLED. So this layer, which sits inside, ends it
//! a moment sooner.

use std::{
    task::{Context, Poll},
    time::Duration,
};

use futures_util::{FutureExt as _, future::BoxFuture};
use http::{HeaderMap, Request, Response};
use tonic::body::Body;
use tower::{Layer, Service};

use super::status;

/// Ends each call at the caller's deadline or after `longest`, whichever comes first.
#[derive(Clone, Copy, Debug)]
pub(super) struct DeadlineLayer {
    longest: Duration,
}

impl DeadlineLayer {
    /// No call takes longer than that.
    pub(super) fn new(longest: Duration) -> Self {
        Self { longest }
    }
}

impl<S> Layer<S> for DeadlineLayer {
    type Service = Deadline<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Deadline { inner, longest: self.longest }
    }
}

/// The service that [`DeadlineLayer`] makes.
#[derive(Clone, Debug)]
pub(super) struct Deadline<S> {
    inner: S,
    longest: Duration,
}

impl<S, B> Service<Request<B>> for Deadline<S>
where
    S: Service<Request<B>, Response = Response<Body>>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Response<Body>, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let callers = callers_timeout(request.headers()).map_or(Duration::MAX, sooner);
        let limit = self.longest.min(callers);
        let answer = self.inner.call(request);
        let overdue = || Ok(status::deadline_passed().into_http());
        if limit.is_zero() {
            // A timer rounds up to its next tick, which may be one with the caller's: no timer for so little.
            return Box::pin(async move { answer.now_or_never().unwrap_or_else(overdue) });
        }
        let answer = tokio::time::timeout(limit, answer);
        Box::pin(async move { answer.await.unwrap_or_else(|_| overdue()) })
    }
}

/// A moment before the caller's deadline: tonic's own timer must not be the first, and the answer should still arrive.
/// The moment is more than a tick of tokio's timers, which is a millisecond.
fn sooner(timeout: Duration) -> Duration {
    let moment = (timeout / 10).clamp(Duration::from_millis(2), Duration::from_millis(5));
    timeout.checked_sub(moment).filter(|left| *left >= Duration::from_millis(1)).unwrap_or_default()
}

/// The caller's `grpc-timeout`: up to eight digits and a unit. What cannot be read is no deadline.
fn callers_timeout(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let is_number = (1..=8).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
    let number: u64 = digits.parse().ok().filter(|_| is_number)?;
    match unit {
        "H" => Some(Duration::from_secs(number * 3600)),
        "M" => Some(Duration::from_secs(number * 60)),
        "S" => Some(Duration::from_secs(number)),
        "m" => Some(Duration::from_millis(number)),
        "u" => Some(Duration::from_micros(number)),
        "n" => Some(Duration::from_nanos(number)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::HeaderValue;
    use tokio::time::Instant;
    use tonic::{Code, Status};
    use tower::{ServiceExt as _, service_fn};

    use super::*;

    /// Calls a service that answers after 10 seconds; gives the code, and after how many milliseconds it came.
    async fn call(longest: Duration, timeout: Option<&'static str>) -> (Code, u128) {
        let slow = service_fn(|_: Request<()>| async {
            tokio::time::sleep(Duration::from_secs(10)).await;
            Ok::<_, Infallible>(Response::new(Body::empty()))
        });
        let mut request = Request::new(());
        if let Some(timeout) = timeout {
            request.headers_mut().insert("grpc-timeout", HeaderValue::from_static(timeout));
        }
        let begun = Instant::now();
        let response = DeadlineLayer::new(longest).layer(slow).oneshot(request).await.expect("infallible");
        let code = Status::from_header_map(response.headers()).map_or(Code::Ok, |status| status.code());
        (code, begun.elapsed().as_millis())
    }

    #[tokio::test(start_paused = true)]
    async fn the_shorter_of_the_callers_and_the_servers_time_holds() {
        let minute = Duration::from_secs(60);
        let second = Duration::from_secs(1);
        assert_eq!(call(minute, None).await, (Code::Ok, 10_000));
        assert_eq!(call(minute, Some("20S")).await, (Code::Ok, 10_000));
        assert_eq!(call(second, None).await, (Code::DeadlineExceeded, 1_000));
        assert_eq!(call(second, Some("20S")).await, (Code::DeadlineExceeded, 1_000));
        assert_eq!(call(minute, Some("2S")).await, (Code::DeadlineExceeded, 1_995));
        assert_eq!(call(minute, Some("20m")).await, (Code::DeadlineExceeded, 18));
        for none in ["0S", "100u", "2m"] {
            assert_eq!(call(minute, Some(none)).await, (Code::DeadlineExceeded, 0), "{none}");
        }
    }

    #[test]
    fn timeouts_are_read_as_the_grpc_protocol_writes_them() {
        let read = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("grpc-timeout", HeaderValue::from_str(text).expect("a value"));
            callers_timeout(&headers)
        };
        let cases = [
            ("2H", Some(Duration::from_secs(7200))),
            ("3M", Some(Duration::from_secs(180))),
            ("4S", Some(Duration::from_secs(4))),
            ("5m", Some(Duration::from_millis(5))),
            ("6u", Some(Duration::from_micros(6))),
            ("99999999n", Some(Duration::from_nanos(99_999_999))),
            ("99999999H", Some(Duration::from_secs(99_999_999 * 3600))),
            ("123456789S", None),
            ("S", None),
            ("", None),
            ("+5S", None),
            ("5 S", None),
            ("5x", None),
            ("5", None),
        ];
        for (text, expected) in cases {
            assert_eq!(read(text), expected, "{text:?}");
        }
        assert_eq!(callers_timeout(&HeaderMap::new()), None);
    }
}

//! Bytes that are no request at all, over plain HTTP/2.

use prost::Message as _;
use tonic::Code;

use super::{case, client, goes_on};
use crate::support::program::{NOBODY, Program};

/// Posts a body to SendEmail, framed as one gRPC message, and gives the gRPC status.
async fn post(http: &reqwest::Client, program: &Program, message: &[u8]) -> i32 {
    let length = u32::try_from(message.len()).expect("a short message").to_be_bytes();
    let response = http
        .post(format!("{}/postrider.v1.EmailService/SendEmail", program.address))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body([&[0], &length[..], message].concat())
        .send()
        .await
        .expect("answered");
    let status = response.headers().get("grpc-status").expect("a refusal is in the headers");
    status.to_str().expect("a number").parse().expect("a number")
}

#[tokio::test]
async fn bytes_that_are_no_request() {
    // Building the client fails without a provider; another test may have installed it already.
    drop(rustls::crypto::ring::default_provider().install_default());
    let http = reqwest::Client::builder().http2_prior_knowledge().build().expect("a client");
    let program = Program::serve(NOBODY).await;
    let good = case("good", &[], |_, _| {}).request.encode_to_vec();
    // A subject that is not UTF-8: the third byte of "Invoice".
    let place = good.windows(7).position(|window| window == b"Invoice").expect("the subject");
    let mut not_utf8 = good.clone();
    not_utf8[place + 2] = 0xff;
    let bodies = [&b"\xff\xff\xff\xff"[..], &good[..good.len() - 1], &not_utf8, &[0x12; 4096]];
    for body in bodies {
        assert_eq!(post(&http, &program, body).await, Code::InvalidArgument as i32, "{:?}", &body[..4]);
        assert_eq!(program.stored().await, [0; 4]);
    }
    goes_on(&program, &mut client(&program).await).await;
    program.stop().await;
}

//! Health, reflection, compression, and how the server stops.

use std::time::Duration;

use postrider::proto::v1::GetStatusRequest;
use prost::Message as _;
use prost_types::FileDescriptorProto;
use tokio_stream::StreamExt as _;
use tonic::{Code, codec::CompressionEncoding, transport::Channel};
use tonic_health::pb::{HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient};
use tonic_reflection::pb::{v1, v1alpha};

use super::{client, keyed, request};
use crate::support::service::service;

const SERVICES: [&str; 3] = ["", "postrider.v1.EmailService", "postrider.v1.OperatorService"];

fn check(service: &str) -> HealthCheckRequest {
    HealthCheckRequest { service: service.into() }
}

#[tokio::test]
async fn health_follows_the_switch() {
    let service = service().await;
    let mut health = HealthClient::new(service.channel().await);
    for name in SERVICES {
        let answer = health.check(check(name)).await.expect("answered").into_inner();
        assert_eq!(answer.status(), ServingStatus::Serving, "{name:?}");
    }
    service.readiness.set_not_serving().await;
    for name in SERVICES {
        let answer = health.check(check(name)).await.expect("answered").into_inner();
        assert_eq!(answer.status(), ServingStatus::NotServing, "{name:?}");
    }
    let status = health.check(check("postrider.v1.Nothing")).await.expect_err("unknown");
    assert_eq!(status.code(), Code::NotFound);
}

#[tokio::test]
async fn a_stop_is_told_to_those_who_watch_and_not_held_up_by_them() {
    let service = service().await;
    let mut health = HealthClient::new(service.channel().await);
    let mut watch = health.watch(check("")).await.expect("answered").into_inner();
    let first = watch.next().await.expect("an answer").expect("no error");
    assert_eq!(first.status(), ServingStatus::Serving);

    let stopped = service.stop();
    let second = watch.next().await.expect("an answer").expect("no error");
    assert_eq!(second.status(), ServingStatus::NotServing);
    assert!(watch.next().await.is_none(), "the watch ends");
    drop(health);
    let served = tokio::time::timeout(Duration::from_secs(10), stopped).await.expect("stops soon");
    served.expect("no panic").expect("no error");
}

#[tokio::test]
async fn a_stop_waits_for_calls_under_way() {
    let service = service().await;
    let beside = service.beside(|_| {}).await;
    let mut health = HealthClient::new(service.channel().await);
    let mut watch = health.watch(check("")).await.expect("answered").into_inner();
    let held = service.hold_commits().await;
    let mut caller = client(&service).await;
    let call = tokio::spawn(async move { caller.send_email(keyed("invoice-1")).await });
    service.commit_held().await;

    let stopped = service.stop();
    while watch.next().await.is_some() {}
    assert!(!stopped.is_finished());
    drop(held);
    let sent = call.await.expect("no panic").expect("accepted").into_inner();
    stopped.await.expect("no panic").expect("no error");
    let found = client(&beside).await.get_status(GetStatusRequest { message_id: sent.message_id }).await;
    found.expect("committed");
}

#[tokio::test]
async fn compression_is_understood_both_ways() {
    let service = service().await;
    let mut client =
        client(&service).await.send_compressed(CompressionEncoding::Gzip).accept_compressed(CompressionEncoding::Gzip);
    let answer = client.send_email(request()).await.expect("accepted");
    assert_eq!(answer.metadata().get("grpc-encoding").expect("an encoding"), "gzip");
}

/// What reflection v1 answers to one question.
async fn ask(
    channel: Channel,
    question: v1::server_reflection_request::MessageRequest,
) -> v1::ServerReflectionResponse {
    let request = v1::ServerReflectionRequest { host: String::new(), message_request: Some(question) };
    let mut client = v1::server_reflection_client::ServerReflectionClient::new(channel);
    let mut answers = client.server_reflection_info(tokio_stream::once(request)).await.expect("answered").into_inner();
    answers.next().await.expect("an answer").expect("no error")
}

#[tokio::test]
async fn reflection_names_the_services_and_the_types_of_error_details() {
    use v1::{server_reflection_request::MessageRequest, server_reflection_response::MessageResponse};
    let service = service().await;
    let channel = service.channel().await;
    let answer = ask(channel.clone(), MessageRequest::ListServices(String::new())).await;
    let Some(MessageResponse::ListServicesResponse(list)) = answer.message_response else {
        panic!("no list: {answer:?}");
    };
    let names: Vec<&str> = list.service.iter().map(|service| service.name.as_str()).collect();
    for name in ["postrider.v1.EmailService", "postrider.v1.OperatorService", "grpc.health.v1.Health"] {
        assert!(names.contains(&name), "{name} is not among {names:?}");
    }

    let types = ["postrider.v1.SendEmailRequest", "google.rpc.BadRequest", "google.rpc.ErrorInfo", "google.rpc.Status"];
    for name in types {
        let answer = ask(channel.clone(), MessageRequest::FileContainingSymbol(name.into())).await;
        let Some(MessageResponse::FileDescriptorResponse(files)) = answer.message_response else {
            panic!("{name}: {answer:?}");
        };
        let file = FileDescriptorProto::decode(files.file_descriptor_proto[0].as_slice()).expect("a descriptor");
        // Every file it builds on is there too: a client asks for them by name.
        for import in file.dependency {
            let answer = ask(channel.clone(), MessageRequest::FileByFilename(import.clone())).await;
            let found = matches!(answer.message_response, Some(MessageResponse::FileDescriptorResponse(_)));
            assert!(found, "{name} needs {import}");
        }
    }
}

#[tokio::test]
async fn reflection_answers_by_its_older_name_too() {
    use v1alpha::{server_reflection_request::MessageRequest, server_reflection_response::MessageResponse};
    let service = service().await;
    let mut client = v1alpha::server_reflection_client::ServerReflectionClient::new(service.channel().await);
    let question = v1alpha::ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::FileContainingSymbol("postrider.v1.EmailService".into())),
    };
    let answers = client.server_reflection_info(tokio_stream::once(question)).await.expect("answered");
    let answer = answers.into_inner().next().await.expect("an answer").expect("no error");
    assert!(matches!(answer.message_response, Some(MessageResponse::FileDescriptorResponse(_))), "{answer:?}");
}

/// Calls SendEmail over plain HTTP/2, with a `grpc-timeout` that only the server sees, and gives the status code.
/// tonic's own client would end the call by itself at the same moment.
async fn status_at_deadline(address: std::net::SocketAddr, timeout: &str) -> String {
    // Building the client fails without a provider; another test may have installed it already.
    drop(rustls::crypto::ring::default_provider().install_default());
    let client = reqwest::Client::builder().http2_prior_knowledge().build().expect("a client");
    let message = request().encode_to_vec();
    let length = u32::try_from(message.len()).expect("a short message").to_be_bytes();
    let response = client
        .post(format!("http://{address}/postrider.v1.EmailService/SendEmail"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("grpc-timeout", timeout)
        .body([&[0], &length[..], &message].concat())
        .send()
        .await
        .expect("answered");
    response.headers().get("grpc-status").and_then(|code| code.to_str().ok()).expect("a status").to_owned()
}

#[tokio::test]
async fn a_callers_deadline_is_answered_deadline_exceeded() {
    let service = service().await;
    let held = service.hold_commits().await;
    let deadline_exceeded = (Code::DeadlineExceeded as i32).to_string();
    for timeout in ["0S", "100u", "1m", "5m", "50m", "200000u"] {
        assert_eq!(status_at_deadline(service.address, timeout).await, deadline_exceeded, "{timeout}");
    }
    drop(held);
}

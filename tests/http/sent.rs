//! What the gateway receives.

use base64::{Engine, prelude::BASE64_STANDARD};

use super::*;

#[tokio::test]
async fn an_email_arrives_as_the_contract_describes_it() {
    let mut peer = HttpPeer::start(&[Behaviour::Answer(response(202, "", r#"{"id":"gw-1"}"#))]).await;
    let message = message();
    let outcome = provider(&peer.url()).send(submission(message.clone(), &[0, 1, 2, 3])).await;
    assert_eq!(outcome.provider_message_id.as_deref(), Some("gw-1"));
    assert_eq!(outcome.health, Health::Healthy);
    assert_eq!(outcome.verdicts.iter().map(|(index, _)| index.0).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert!(outcome.verdicts.iter().all(|(_, verdict)| verdict.class == Class::Accepted));

    let mut json = peer.request().await.json();
    let attachments = json.as_object_mut().unwrap().remove("attachments").unwrap();
    let id = message.id.to_string();
    assert_eq!(
        json,
        serde_json::json!({
            "message_id": id,
            "internet_message_id": format!("<{id}@shop.example>"),
            "date": "2026-12-01T11:38:29Z",
            "recipients": [
                {"index": 0, "address": "anna@example.com"},
                {"index": 1, "address": "boris@xn--e1afmkfd.xn--p1ai"},
                {"index": 2, "address": "vera@example.com"},
                {"index": 3, "address": "archive@shop.example"},
            ],
            "from": {"address": "billing@shop.example", "name": "Магазин \"Ёж\""},
            "to": [
                {"address": "anna@example.com", "name": "Анна Петрова"},
                {"address": "boris@xn--e1afmkfd.xn--p1ai"},
            ],
            "cc": [{"address": "vera@example.com"}],
            "bcc": [{"address": "archive@shop.example"}],
            "reply_to": [{"address": "help@shop.example"}],
            "subject": "Счёт № 4711",
            "text": "Во вложении.\r\n.\r\n",
            "html": "<p>Во вложении</p><img src=\"cid:logo\">",
            "headers": [{"name": "X-Campaign", "value": "one"}, {"name": "X-Campaign", "value": "zwei €"}],
            "tags": ["invoice"],
            "metadata": {"order": "4711"},
            "document_type": "INVOICE",
        })
    );
    let expected =
        [("Счёт.pdf", "attachment", None), ("logo.png", "inline", Some("logo")), ("empty.txt", "attachment", None)];
    for (place, (filename, disposition, content_id)) in expected.into_iter().enumerate() {
        let sent = &attachments[place];
        assert_eq!((sent["filename"].as_str(), sent["disposition"].as_str()), (Some(filename), Some(disposition)));
        assert_eq!(sent["content_type"], message.email.attachments[place].content_type);
        assert_eq!(sent.get("content_id").and_then(|id| id.as_str()), content_id);
        let content = BASE64_STANDARD.decode(sent["content"].as_str().unwrap()).unwrap();
        assert!(content == message.email.attachments[place].content, "{filename} arrived changed");
    }
    assert_eq!(attachments.as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn the_headers_tell_the_key_the_trace_and_the_token() {
    let mut peer = HttpPeer::start(&[Behaviour::Answer(response(200, "", ""))]).await;
    let message = message();
    let token = Some("s3cret".to_owned().into());
    let provider = HttpProvider::new(ProviderName::new("gateway"), &settings(&peer.url(), |_| {}), token).unwrap();
    provider.send(submission(message.clone(), &[0])).await;
    provider.send(submission(message.clone(), &[1])).await;

    let id = message.id.to_string();
    for connection in [0, 0] {
        let request = peer.request().await;
        assert_eq!(request.line, "POST /v1/emails?tenant=7 HTTP/1.1");
        assert_eq!(request.header("idempotency-key"), Some(id.as_str()));
        assert_eq!(request.header("x-correlation-id"), Some("order-4711"));
        assert_eq!(request.header("traceparent"), Some(TRACEPARENT));
        assert_eq!(request.header("tracestate"), Some("vendor=1"));
        assert_eq!(request.header("authorization"), Some("Bearer s3cret"));
        assert_eq!(request.header("content-type"), Some("application/json"));
        assert_eq!(request.header("accept"), Some("application/json"));
        assert_eq!(request.header("transfer-encoding"), None);
        assert_eq!(request.connection, connection, "the connection was not kept");
    }
    assert!(!format!("{provider:?}").contains("s3cret"));
}

#[tokio::test]
async fn what_is_not_there_is_no_header_and_what_cannot_stand_in_one_stops_nothing() {
    let mut peer = HttpPeer::start(&[Behaviour::Answer(response(200, "", ""))]).await;
    let message = Message { correlation_id: "a\r\nX-Evil: b".to_owned(), ..message() };
    let submission = Submission { traceparent: String::new(), ..submission(message, &[0]) };
    let outcome = provider(&peer.url()).send(submission).await;
    assert_outcome(&outcome, Class::Accepted, Scope::Recipient, "200", Health::Healthy);
    let request = peer.request().await;
    for name in ["authorization", "traceparent", "tracestate", "x-correlation-id", "x-evil"] {
        assert_eq!(request.header(name), None, "{name}");
    }
}

#[tokio::test]
async fn only_the_open_recipients_are_in_the_envelope_and_the_rest_of_a_repeat_is_the_same() {
    let mut peer = HttpPeer::start(&[Behaviour::Answer(response(200, "", ""))]).await;
    let provider = provider(&peer.url());
    let message = message();
    provider.send(submission(message.clone(), &[0, 1, 2, 3])).await;
    let outcome = provider.send(submission(message, &[3, 1])).await;
    let verdicts: Vec<u16> = outcome.verdicts.iter().map(|(index, _)| index.0).collect();
    assert_eq!(verdicts, [3, 1]);

    let (mut whole, mut rest) = (peer.request().await.json(), peer.request().await.json());
    let open = serde_json::json!([
        {"index": 3, "address": "archive@shop.example"},
        {"index": 1, "address": "boris@xn--e1afmkfd.xn--p1ai"},
    ]);
    assert_eq!(rest["recipients"], open);
    for json in [&mut whole, &mut rest] {
        json.as_object_mut().unwrap().remove("recipients");
    }
    assert_eq!(whole, rest);
}

#[tokio::test]
async fn what_is_larger_than_the_gateway_takes_is_not_offered() {
    let mut peer = HttpPeer::start(&[Behaviour::Answer(response(200, "", ""))]).await;
    provider(&peer.url()).send(submission(message(), &[0])).await;
    let length = peer.request().await.body.len();

    let limited = |limit: usize| provider_with(&peer.url(), |s| s.max_bytes = Some(limit as u64));
    let [fits, too_large] = [limited(length), limited(length - 1)];
    let outcome = fits.send(submission(message(), &[0])).await;
    assert_outcome(&outcome, Class::Accepted, Scope::Recipient, "200", Health::Healthy);
    peer.request().await;
    let outcome = too_large.send(submission(message(), &[0])).await;
    assert_outcome(&outcome, Class::UnfitHere, Scope::MessageAtProvider, "size", Health::Neutral);
    assert!(peer.is_quiet());
}

//! Sends the email of an invoice through Postrider: send-invoice INVOICE RECIPIENT

use std::time::Duration;

use postrider::{Email, Mailbox, SendEmailRequest, SendEmailResponse, email_service_client::EmailServiceClient};
use tonic::{Code, Request, Status, transport::Channel};
use tonic_types::StatusExt as _;

mod postrider {
    tonic::include_proto!("postrider.v1");
}

/// Repeats the call under its key: it may have been accepted, and is never accepted twice.
async fn send(emails: &mut EmailServiceClient<Channel>, email: &SendEmailRequest) -> Result<SendEmailResponse, Status> {
    let mut pause = Duration::from_millis(200);
    loop {
        let mut request = Request::new(email.clone());
        request.set_timeout(Duration::from_secs(5));
        request.metadata_mut().insert("x-client-id", "billing".parse().expect("ASCII"));
        match emails.send_email(request).await {
            Ok(response) => return Ok(response.into_inner()),
            Err(status) if is_worth_repeating(&status) && pause < Duration::from_secs(6) => {
                tokio::time::sleep(pause).await;
                pause *= 2;
            }
            Err(status) => return Err(status),
        }
    }
}

/// tonic's own words for a connection that was lost and a deadline that passed are Unknown and Cancelled.
fn is_worth_repeating(status: &Status) -> bool {
    let code = status.code();
    matches!(code, Code::Unavailable | Code::DeadlineExceeded | Code::ResourceExhausted | Code::Unknown | Code::Cancelled)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(invoice), Some(recipient)) = (args.next(), args.next()) else {
        return Err("send-invoice INVOICE RECIPIENT".into());
    };
    let request = SendEmailRequest {
        idempotency_key: format!("invoice-{invoice}"),
        email: Some(Email {
            from: Some(Mailbox { address: "billing@shop.example".into(), name: "Shop".into() }),
            to: vec![Mailbox { address: recipient, name: String::new() }],
            subject: format!("Your invoice {invoice}"),
            text: "It is attached.".into(),
            document_type: "INVOICE".into(),
            ..Default::default()
        }),
        ..Default::default()
    };
    let channel = Channel::from_static("http://127.0.0.1:50051").connect_lazy();
    match send(&mut EmailServiceClient::new(channel), &request).await {
        Ok(accepted) => println!("{} {:?}", accepted.message_id, accepted.status()),
        Err(status) => {
            for violation in status.get_details_bad_request().into_iter().flat_map(|bad| bad.field_violations) {
                println!("{}: {}", violation.field, violation.description);
            }
            return Err(format!("{:?}: {}", status.code(), status.message()).into());
        }
    }
    Ok(())
}

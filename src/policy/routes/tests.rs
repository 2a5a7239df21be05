//! Which message takes which route, as tables.

use std::collections::BTreeMap;

use super::*;
use crate::message::{EmailAddress, Mailbox};

fn mailbox(address: &str) -> Mailbox {
    Mailbox { name: None, address: EmailAddress::parse(address).unwrap() }
}

/// From a shop to one reader.
fn email(change: impl FnOnce(&mut Email)) -> Email {
    let mut email = Email {
        from: mailbox("billing@shop.example"),
        to: vec![mailbox("ada@example.net")],
        cc: Vec::new(),
        bcc: Vec::new(),
        reply_to: Vec::new(),
        subject: "Invoice".into(),
        text: Some("Enclosed.".into()),
        html: None,
        attachments: Vec::new(),
        headers: Vec::new(),
        tags: vec!["invoice".into(), "eu".into()],
        metadata: BTreeMap::new(),
        document_type: Some("INVOICE".into()),
    };
    change(&mut email);
    email
}

fn plain() -> Email {
    email(|_| ())
}

fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).to_vec()
}

/// A route to the chain `other`.
fn route(change: impl FnOnce(&mut config::Route)) -> config::Route {
    let mut route = config::Route { chain: "other".into(), ..config::Route::default() };
    change(&mut route);
    route
}

fn routes(settings: &[config::Route]) -> Routes {
    Routes::new(settings, |_, _| Vec::new())
}

fn led(settings: &[config::Route], email: &Email) -> String {
    let shop = ClientId::new("shop");
    routes(settings).lead(&shop, Priority::Normal, email).unwrap().to_owned()
}

#[test]
fn each_condition_leads_who_meets_it_and_nobody_else() {
    let to = |addresses: &[&str]| {
        let to = addresses.iter().map(|address| mailbox(address)).collect();
        email(|e| e.to = to)
    };
    let from = |address: &str| email(|e| e.from = mailbox(address));
    let senders = || route(|r| r.sender_domains = words(["Shop.example", "*.group.example"]));
    let recipients = || route(|r| r.recipient_domains = words(["example.net", "*.xn--mnchen-3ya.example"]));
    let table = [
        (route(|_| ()), plain(), true),
        (route(|r| r.clients = words(["web", "shop"])), plain(), true),
        (route(|r| r.clients = words(["web"])), plain(), false),
        (senders(), plain(), true),
        (senders(), from("billing@a.shop.example"), false),
        (senders(), from("billing@a.group.example"), true),
        (senders(), from("billing@a.b.group.example"), true),
        (senders(), from("billing@group.example"), false),
        (senders(), from("billing@othergroup.example"), false),
        (recipients(), plain(), true),
        (recipients(), to(&["ada@example.net", "bob@EXAMPLE.net"]), true),
        (recipients(), to(&["ada@example.net", "bob@example.org"]), false),
        (recipients(), to(&["ada@post.münchen.example"]), true),
        (recipients(), email(|e| e.bcc.push(mailbox("archive@example.org"))), false),
        (route(|r| r.tags = words(["us", "eu"])), plain(), true),
        (route(|r| r.tags = words(["us"])), plain(), false),
        (route(|r| r.tags = words(["us"])), email(|e| e.tags.clear()), false),
        (route(|r| r.document_types = words(["INVOICE"])), plain(), true),
        (route(|r| r.document_types = words(["REMINDER"])), plain(), false),
        (route(|r| r.document_types = words(["INVOICE"])), email(|e| e.document_type = None), false),
        (route(|r| r.priorities = words(["BULK", "NORMAL"])), plain(), true),
        (route(|r| r.priorities = words(["BULK"])), plain(), false),
    ];
    for (route, email, is_met) in table {
        let expected = if is_met { "other" } else { "default" };
        assert_eq!(led(std::slice::from_ref(&route), &email), expected, "{route:?}");
    }
}

#[test]
fn all_conditions_of_a_route_must_be_met() {
    let both = |tag: &str| {
        route(|r| {
            r.clients = words(["shop"]);
            r.tags = words([tag]);
        })
    };
    assert_eq!(led(&[both("eu")], &plain()), "other");
    assert_eq!(led(&[both("us")], &plain()), "default");
}

#[test]
fn the_first_route_that_is_met_wins() {
    let to = |chain: &str, tag: &str| config::Route { chain: chain.into(), tags: words([tag]), ..Default::default() };
    assert_eq!(led(&[to("first", "us"), to("second", "eu"), to("third", "invoice")], &plain()), "second");
    assert_eq!(led(&[to("third", "invoice"), to("second", "eu")], &plain()), "third");
    assert_eq!(led(&[], &plain()), "default");
}

#[test]
fn what_no_provider_of_its_chain_can_carry_is_refused_for_that_chain_alone() {
    let refused = Violation { field: "email.to".into(), description: "is too much for chain other".into() };
    let lacks = vec![refused.clone()];
    let bulk_only = [route(|r| r.priorities = words(["BULK"]))];
    let routes = Routes::new(&bulk_only, move |chain, _| if chain == "other" { lacks.clone() } else { Vec::new() });
    let shop = ClientId::new("shop");
    assert_eq!(routes.lead(&shop, Priority::Normal, &plain()), Ok("default"));
    assert_eq!(routes.lead(&shop, Priority::Bulk, &plain()), Err(vec![refused]));
}

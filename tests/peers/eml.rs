//! An .eml file of Python's email package, by `postrider send` to aiosmtpd and back into Python's email package.

use super::{judge, python, relay};
use crate::support::{aiosmtpd::Aiosmtpd, program::Program};

#[tokio::test]
async fn an_eml_file_of_another_program_arrives_as_it_was() {
    let Some(mut server) = Aiosmtpd::start().await else { return };
    let program = Program::serve(&relay(&server, "plain")).await;
    let specimen = python("specimen.py").output().await.expect("Python runs");
    assert!(specimen.status.success(), "{}", String::from_utf8_lossy(&specimen.stderr));
    program.place.write("specimen.eml", &specimen.stdout);

    let said = program.run(["send", "--eml", "specimen.eml", "--bcc", "archive@shop.example", "--wait"]).await;
    let id = said.well().split(' ').next().expect("an id");
    let handed = server.handed().await;
    assert_eq!(handed.to.last().map(String::as_str), Some("archive@shop.example"));
    // Of an .eml file's own headers only those are taken over that are meant for the receiver.
    judge(&handed.content, id, &["X-Order", "X-Campaign"]).await;
    program.stop().await;
}

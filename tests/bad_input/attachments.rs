//! Attachments of a forbidden type with an innocent name, and the other way round.

use std::{io::Write as _, process::Stdio};

use flate2::Crc;
use postrider::proto::v1::Attachment;
use tokio::process::Command;

use super::{Case, case, file, refuse};
use crate::support::python::{PYTHON, has_modules};

/// The beginning of a program for Windows.
pub const WINDOWS_PROGRAM: &[u8] = b"MZ\x90\0\x03\0\0\0\x04\0\0\0\xff\xff\0\0\xb8\0\0\0\0\0\0\0@\0\0\0";

fn refused_content(what: &str, filename: &str, content: &[u8]) -> Case {
    case(what, &["email.attachments[0].content"], |_, e| e.attachments = vec![file(filename, content)])
}

fn refused_name(filename: &str) -> Case {
    case(filename, &["email.attachments[0].filename"], |_, e| e.attachments = vec![file(filename, b"%PDF-1.7\n")])
}

fn refused_type(content_type: &str) -> Case {
    case(content_type, &["email.attachments[0].content_type"], |_, e| {
        let content_type = content_type.to_owned();
        e.attachments = vec![Attachment { content_type, ..file("invoice.pdf", b"%PDF-1.7\n") }];
    })
}

#[tokio::test]
async fn forbidden_types_under_innocent_names() {
    // A whole program: the one that runs here.
    let program = std::fs::read("/bin/true").expect("a program of this machine");
    let document = |part: &str| archive(&["[Content_Types].xml", "word/document.xml", part]);
    let declared = case("a program declared a PDF", &["email.attachments[0].content"], |_, e| {
        let content_type = "application/pdf".to_owned();
        e.attachments = vec![Attachment { content_type, ..file("invoice.pdf", WINDOWS_PROGRAM) }];
    });
    refuse(vec![
        refused_content("a program for Windows", "invoice.pdf", WINDOWS_PROGRAM),
        refused_content("a program for Linux", "invoice.pdf", &program),
        refused_content("a document with macros", "invoice.pdf", &document("word/vbaProject.bin")),
        refused_content("a document with macros by its own name", "invoice.docx", &document("word/vbaProject.bin")),
        refused_content("an archive", "picture.png", &archive(&["invoice.exe"])),
        refused_content("a shell script", "notes.txt", b"#!/bin/sh\nrm -rf /\n"),
        refused_content("a page with a script", "picture.png", b"<html><script>alert(1)</script></html>"),
        refused_content("bytes of no known type", "invoice.pdf", &[0x81, 0, 0xfe, 0x13, 0, 0, 0x99]),
        refused_content("nothing", "invoice.pdf", b""),
        declared,
        refused_name("invoice.pdf.exe"),
        refused_name("invoice.PDF.Scr "),
        refused_name("invoice\u{202e}fdp.exe.pdf"),
        refused_name("../../etc/passwd"),
        refused_type("application/x-msdownload"),
        refused_type("text/html"),
        refused_type("message/rfc822"),
        refused_type("nonsense"),
    ])
    .await;
}

#[tokio::test]
async fn the_archives_of_these_tests_are_archives() {
    if !has_modules(&[("zipfile", "python3")]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.zip");
    let content = archive(&["word/document.xml", "word/vbaProject.bin"]);
    std::fs::File::create(&path).and_then(|mut file| file.write_all(&content)).expect("it is written");
    let listed = Command::new(PYTHON).args(["-m", "zipfile", "-t"]).arg(&path).stdin(Stdio::null()).output().await;
    let listed = listed.expect("Python runs");
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
}

/// A ZIP archive with files of those names, stored as they are.
fn archive(names: &[&str]) -> Vec<u8> {
    let content = b"content";
    let mut sum = Crc::new();
    sum.update(content);
    let size = u32::try_from(content.len()).expect("short").to_le_bytes();
    let (mut files, mut directory) = (Vec::new(), Vec::new());
    for name in names {
        let offset = u32::try_from(files.len()).expect("short").to_le_bytes();
        let length = u16::try_from(name.len()).expect("short").to_le_bytes();
        // Version, flags, method, time, date; then sums and sizes.
        let common =
            [b"\x14\0\0\0\0\0\0\0\x21\0", &sum.sum().to_le_bytes()[..], &size, &size, &length, &[0, 0]].concat();
        files.extend([b"PK\x03\x04", &common[..], name.as_bytes(), content].concat());
        directory.extend([b"PK\x01\x02\x14\0", &common[..], &[0; 10], &offset, name.as_bytes()].concat());
    }
    let count = u16::try_from(names.len()).expect("few").to_le_bytes();
    let (start, length) = (files.len(), directory.len());
    files.extend(directory);
    files.extend([b"PK\x05\x06\0\0\0\0", &count[..], &count].concat());
    files.extend(u32::try_from(length).expect("short").to_le_bytes());
    files.extend(u32::try_from(start).expect("short").to_le_bytes());
    files.extend([0, 0]);
    files
}

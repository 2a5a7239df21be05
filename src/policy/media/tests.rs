//! What files are found to be, and which pass under which name.

use std::io::Write;

use flate2::{Compression, write::DeflateEncoder};
use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::{AllowedTypes, Detected, allowed::carries_program, detect, extension, judge};
use crate::{config, message::MediaType};

const DOCX: &str = "application/vnd.openxmlformats-officedocument.wordprocessingml.document";
const DOCM: &str = "application/vnd.ms-word.document.macroenabled.12";
const ODT: &str = "application/vnd.oasis.opendocument.text";
const TYPES: &str = "[Content_Types].xml";
const DOCX_TYPES: &str = r#"<Types><Override PartName="/word/document.xml" ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/></Types>"#;
const DOCM_TYPES: &str = r#"<Types><Override PartName="/word/document.xml" ContentType="application/vnd.ms-word.document.macroEnabled.main+xml"/></Types>"#;
const RENAMED_VBA: &str = r#"<Types><Override PartName="/word/document.xml" ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/><Override PartName="/word/x.bin" ContentType="application/vnd.ms-office.vbaProject"/></Types>"#;
const SPELLED_VBA: &str = r#"<Types><Override PartName="/word/document.xml" ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/><Override PartName="/word/x.bin" ContentType="application/vnd.ms-office.vba&#80;roject"/></Types>"#;

/// A zip file of those entries: one in two is compressed.
fn zip(entries: &[(&str, &str)]) -> Vec<u8> {
    let (mut file, mut directory) = (Vec::new(), Vec::new());
    for (index, (name, content)) in entries.iter().enumerate() {
        let (method, data) = if index % 2 == 0 { (0_u16, content.as_bytes().to_vec()) } else { (8, deflate(content)) };
        let offset = u32::try_from(file.len()).expect("is small");
        let size = u32::try_from(data.len()).expect("is small").to_le_bytes();
        let full = u32::try_from(content.len()).expect("is small").to_le_bytes();
        let name_len = u16::try_from(name.len()).expect("is small").to_le_bytes();
        let common = [&[20, 0, 0, 0][..], &method.to_le_bytes(), &[0; 8], &size, &full, &name_len, &[0, 0]].concat();
        file.extend([&b"PK\x03\x04"[..], &common[..], name.as_bytes(), &data].concat());
        directory.extend(
            [&b"PK\x01\x02"[..], &[20, 0], &common[..], &[0; 10], &offset.to_le_bytes(), name.as_bytes()].concat(),
        );
    }
    let count = u16::try_from(entries.len()).expect("is small").to_le_bytes();
    let (start, size) = (file.len() as u32, directory.len() as u32);
    let ends = [&start.to_le_bytes()[..], &[0, 0]].concat();
    file.extend([&directory[..], b"PK\x05\x06\0\0\0\0", &count, &count, &size.to_le_bytes(), &ends].concat());
    file
}

fn deflate(content: &str) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(content.as_bytes()).expect("memory takes all");
    encoder.finish().expect("memory takes all")
}

fn utf16(text: &str) -> Vec<u8> {
    [vec![0xff, 0xfe], text.encode_utf16().flat_map(u16::to_le_bytes).collect()].concat()
}

fn exe() -> Vec<u8> {
    [b"MZ\x90\0\x03\0\0\0\x04\0\0\0\xff\xff\0\0".as_slice(), &[0; 200]].concat()
}

#[test]
fn forms_are_found_by_content() {
    let known: [(&[u8], &str); 43] = [
        (b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n", "application/pdf"),
        (b"%PDF-1.4\nall ASCII", "application/pdf"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "image/png"),
        (b"\xff\xd8\xff\xe0\0\x10JFIF\0", "image/jpeg"),
        (b"GIF89a\x01\0\x01\0\0\0\0", "image/gif"),
        (b"RIFF\x24\0\0\0WEBPVP8 \0", "image/webp"),
        (&exe(), "application/vnd.microsoft.portable-executable"),
        (b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x3e\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", "application/x-executable"),
        (b"\xcf\xfa\xed\xfe\x07\0\0\x01\x03\0\0\0", "application/x-mach-binary"),
        (b"\xca\xfe\xba\xbe\0\0\0\x34", "application/java"),
        (b"\0asm\x01\0\0\0", "application/wasm"),
        (b"\x4c\0\0\0\x01\x14\x02\0\0\0\0\0\xc0\0\0\0", "application/x-ms-shortcut"),
        (b"#!/bin/sh\nrm -rf ~\n", "text/x-shellscript"),
        (b"\xef\xbb\xbf#!/usr/bin/env python3\n", "text/x-shellscript"),
        (b"@echo off\r\ndel *.*\r\n", "application/x-bat"),
        (b"  @ECHO OFF\r\n", "application/x-bat"),
        (b"param([string]$a)\n", "application/x-powershell"),
        (b"#Requires -Version 5\n", "application/x-powershell"),
        (b"$x = (New-Object Net.WebClient).DownloadString('http://a')", "application/x-powershell"),
        (&utf16("Invoke-Expression $x"), "application/x-powershell"),
        (b"On Error Resume Next\r\n", "text/vbscript"),
        (b"x = 1\r\nSet s = CreateObject(\"WScript.Shell\")\r\n", "text/vbscript"),
        (b"var shell = new ActiveXObject('WScript.Shell');", "text/javascript"),
        (b"const fs = require('fs')\n", "text/javascript"),
        (b"function run() { }", "text/javascript"),
        (b"(function () { })()", "text/javascript"),
        (b"<?php system($_GET[0]);", "application/x-httpd-php"),
        (b"<!DOCTYPE html><p>", "text/html"),
        (b"\r\n <script>alert(1)</script>", "text/html"),
        (b"<!-- hello --><html>", "text/html"),
        (&utf16("<html></html>"), "text/html"),
        (b"<?xml version=\"1.0\"?><r xmlns:h=\"http://www.w3.org/1999/xhtml\"><h:script/></r>", "text/html"),
        (b"<?xml version=\"1.0\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\"/>", "image/svg+xml"),
        (b"<svg onload=\"alert(1)\">", "image/svg+xml"),
        (b"<?xml version=\"1.0\"?><Invoice/>", "application/xml"),
        (b"<?xml version=\"1.0\"?><?mso-application progid=\"Word.Document\"?><w/>", "application/x-mso-xml"),
        (b"{\\rtf1 hello}", "application/rtf"),
        (b"BEGIN:VCALENDAR\r\nVERSION:2.0\r\n", "text/calendar"),
        (b"BEGIN:VCARD\r\n", "text/vcard"),
        (b"[InternetShortcut]\r\nURL=file://a\r\n", "application/x-url-shortcut"),
        (&utf16("Windows Registry Editor Version 5.00\r\n"), "text/x-ms-regedit"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1 anything", "application/x-ole-storage"),
        (
            b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1..._\0V\0B\0A\0_\0P\0R\0O\0J\0E\0C\0T\0...",
            "application/vnd.ms-office.vbaproject",
        ),
    ];
    for (content, media) in known {
        assert_eq!(detect(content), Detected::Known(media), "{}", content.escape_ascii());
    }
}

#[test]
fn texts_are_told_from_what_is_unknown() {
    let texts: [&[u8]; 10] = [
        b"Hello",
        b"a;b\r\n1;2\r\n",
        b"\xcf\xf0\xe8\xe2\xe5\xf2; 1251",
        "Привет".as_bytes(),
        &utf16("a\tb\r\n"),
        b"MZ-2000: a manual",
        b"let me know when the function (sic) is due",
        b"var. 7 of the song",
        b"<ann@example.com> wrote: >",
        b"PowerShell is a shell",
    ];
    for content in texts {
        assert_eq!(detect(content), Detected::Text, "{}", content.escape_ascii());
    }
    for content in [&b"\0"[..], b"a\0b", b"\x01\x02\x03", b"\xff\xfea", b"\xff\xfe\x00\xd8"] {
        assert_eq!(detect(content), Detected::Unknown, "{}", content.escape_ascii());
    }
}

#[test]
fn types_that_are_too_long_to_be_read_whole_make_no_document() {
    let padded = |types: &str, padding: usize| types.replacen("<Types>", &format!("<Types>{}", " ".repeat(padding)), 1);
    // The part with macros stands behind the megabyte that is looked at.
    let hidden = DOCX_TYPES.replace("</Types>", &" ".repeat(1024 * 1024)) + &RENAMED_VBA["<Types>".len()..];
    for (types, expected) in [(hidden, "application/zip"), (padded(DOCX_TYPES, 1_000_000), DOCX)] {
        // Once stored as it is and once compressed.
        for entries in [[(TYPES, types.as_str()), ("word/x.bin", "x")], [("word/x.bin", "x"), (TYPES, types.as_str())]]
        {
            assert_eq!(detect(&zip(&entries)), Detected::Known(expected), "{} bytes", types.len());
        }
    }
}

#[test]
fn documents_are_told_from_archives_and_macros() {
    let table: [(Vec<u8>, &str); 17] = [
        (zip(&[(TYPES, DOCX_TYPES), ("word/document.xml", "<w/>")]), DOCX),
        (zip(&[("word/document.xml", "<w/>"), (TYPES, DOCX_TYPES)]), DOCX),
        (zip(&[(TYPES, DOCM_TYPES), ("word/vbaProject.bin", "x")]), DOCM),
        (zip(&[(TYPES, DOCX_TYPES), ("word/vbaProject.bin", "x")]), DOCM),
        (zip(&[(TYPES, DOCX_TYPES), ("word\\VBAPROJECT.BIN", "x")]), DOCM),
        (zip(&[(TYPES, RENAMED_VBA), ("word/x.bin", "x")]), DOCM),
        (zip(&[("word/x.bin", "x"), (TYPES, SPELLED_VBA)]), DOCM),
        (zip(&[(TYPES, DOCX_TYPES), ("word/activeX/activeX1.bin", "x")]), DOCM),
        (zip(&[(TYPES, DOCX_TYPES), ("META-INF/MANIFEST.MF", "x")]), "application/java-archive"),
        (zip(&[(TYPES, DOCX_TYPES), (TYPES, DOCM_TYPES)]), "application/zip"),
        (zip(&[(TYPES, "<Types/>")]), "application/zip"),
        (zip(&[("mimetype", ODT), ("content.xml", "<o/>")]), ODT),
        (zip(&[("mimetype", ODT), ("Basic/Standard/Module1.xml", "<b/>")]), "application/x-opendocument-macros"),
        (zip(&[("pass.json", "{}"), ("manifest.json", "{}"), ("signature", "s")]), "application/vnd.apple.pkpass"),
        (zip(&[("AndroidManifest.xml", "x")]), "application/vnd.android.package-archive"),
        (zip(&[("invoice.exe", "MZ")]), "application/zip"),
        (zip(&[]), "application/zip"),
    ];
    for (index, (content, media)) in table.into_iter().enumerate() {
        assert_eq!(detect(&content), Detected::Known(media), "number {index}");
    }
}

#[test]
fn an_archive_that_readers_may_differ_about_is_no_document() {
    let docx = zip(&[(TYPES, DOCX_TYPES), ("word/document.xml", "<w/>")]);
    let cut = docx[..docx.len() - 1].to_vec();
    let longer = [&docx[..], b"x"].concat();
    let mut moved = docx.clone();
    let at = moved.len() - 6;
    moved[at] ^= 1;
    let two = [&docx[..], &docx[..]].concat();
    for content in [cut, longer, moved, two] {
        assert_eq!(detect(&content), Detected::Known("application/zip"));
    }
}

#[test]
fn a_damaged_archive_does_no_harm() {
    let docx = zip(&[(TYPES, DOCX_TYPES), ("word/document.xml", DOCX_TYPES), ("mimetype", ODT)]);
    let mut rng = StdRng::seed_from_u64(3);
    for _ in 0..20_000 {
        let mut damaged = docx.clone();
        for _ in 0..rng.random_range(1..6) {
            // The directory is at the end, and most damage is done there.
            let back = rng.random_range(1..=damaged.len()).min(rng.random_range(1..=damaged.len()));
            let at = damaged.len() - back;
            damaged[at] = rng.random();
        }
        damaged.truncate(damaged.len() - rng.random_range(0..3));
        let found = detect(&damaged);
        assert!(matches!(found, Detected::Known(_) | Detected::Unknown), "{found:?}");
    }
}

/// The problems of a file under the default settings and one more allowed type: content, declared type, name.
fn problems(content: &[u8], filename: &str, declared: &str, more: &str) -> (String, [bool; 3]) {
    let mut patterns = config::Policy::default().attachment_types;
    patterns.push(more.to_owned());
    let declared = Some(declared).filter(|d| !d.is_empty()).map(|d| MediaType::parse(d).expect("is a media type"));
    let judgement = judge(content, filename, declared.as_ref(), &AllowedTypes::new(&patterns));
    let problems = [!judgement.content_allowed, !judgement.declared_allowed, judgement.refused_extension.is_some()];
    (judgement.found.to_owned(), problems)
}

#[test]
fn a_file_passes_only_if_content_declaration_and_name_all_do() {
    let exe = exe();
    let pdf = b"%PDF-1.7\n\xe2\n".as_slice();
    let gif = b"GIF89a\x01\0\x01\0\0\0\0".as_slice();
    let svg = b"<svg xmlns='http://www.w3.org/2000/svg'/>".as_slice();
    let none = [false; 3];
    let table = [
        (pdf, "invoice.pdf", "application/pdf", "", "application/pdf", none),
        (pdf, "invoice.pdf", "", "", "application/pdf", none),
        (pdf, "invoice", "application/octet-stream", "", "application/pdf", none),
        (pdf, "invoice.pdf", "image/png", "", "application/pdf", none),
        (pdf, "invoice.pdf", "application/x-msdownload", "", "application/pdf", [false, true, false]),
        (pdf, "invoice.pdf.exe", "application/pdf", "", "application/pdf", [false, false, true]),
        (pdf, "invoice.EXE. .", "application/pdf", "", "application/pdf", [false, false, true]),
        (pdf, "invoice.exe::$DATA", "application/pdf", "", "application/pdf", [false, false, true]),
        (pdf, "a.b:invoice.exe", "application/pdf", "", "application/pdf", [false, false, true]),
        (pdf, "Invoice 10:30.pdf", "application/pdf", "", "application/pdf", none),
        (
            &exe,
            "invoice.pdf",
            "application/pdf",
            "",
            "application/vnd.microsoft.portable-executable",
            [true, false, false],
        ),
        (gif, "logo.js", "image/gif", "", "image/gif", [false, false, true]),
        (svg, "logo.svg", "image/svg+xml", "", "image/svg+xml", [true, true, true]),
        (svg, "logo.svg", "image/svg+xml", "image/svg+xml", "image/svg+xml", none),
        (svg, "logo.svg", "image/svg+xml", "*/*", "image/svg+xml", [true, true, true]),
        (b"a;b", "rows.csv", "", "", "text/csv", none),
        (b"a;b", "rows.csv", "text/csv; charset=utf-8", "", "text/csv", none),
        (b"a;b", "rows.txt", "", "", "text/plain", none),
        (b"{}", "a.json", "application/json", "", "application/json", [true, true, false]),
        (b"{}", "a.json", "application/json", "Application/JSON", "application/json", none),
        (b"hello", "a.txt", "text/html", "", "text/plain", [false, true, false]),
        (b"hello", "a.html", "text/plain", "", "text/plain", [false, false, true]),
        (b"alert(1)", "a.txt", "text/ecmascript", "text/*", "text/ecmascript", [true, true, false]),
        (b"alert(1)", "a.txt", "application/javascript", "", "application/javascript", [true, true, false]),
        (b"\0\x01\x02", "a.bin", "", "", "application/octet-stream", [true, false, false]),
        (b"\0\x01\x02", "a.acme", "application/vnd.acme", "", "application/octet-stream", [true, true, false]),
        (b"\0\x01\x02", "a.acme", "application/vnd.acme", "application/vnd.acme", "application/vnd.acme", none),
        (
            b"\0\x01\x02",
            "a.acme",
            "application/vnd.acme",
            "application/*",
            "application/octet-stream",
            [true, false, false],
        ),
        (b"\0\x01\x02", "a.png", "image/png", "image/png", "application/octet-stream", [true, false, false]),
        (b"\0\x01\x02", "a.bin", "", "application/octet-stream", "application/octet-stream", none),
    ];
    for (content, filename, declared, more, found, expected) in table {
        assert_eq!(
            problems(content, filename, declared, more),
            (found.to_owned(), expected),
            "{filename} {declared} {more}"
        );
    }
}

#[test]
fn no_default_type_and_no_wildcard_covers_a_program() {
    let defaults = AllowedTypes::new(&config::Policy::default().attachment_types);
    let everything = AllowedTypes::new(&["*/*".to_owned(), "application/*".to_owned(), "text/*".to_owned()]);
    let names =
        ["a.exe", "a.bat", "a.PS1", "a.docm", "a.xls", "a.html", "a.svg", "a.jar", "a.lnk", "a.reg", "a.sh", "a.iso"];
    for name in names {
        let (_, media) = extension::program(name).unwrap_or_else(|| panic!("{name} is a program"));
        assert!(carries_program(media) && !defaults.covers(media) && !everything.covers(media), "{name}");
    }
    for media in ["application/octet-stream", "application/zip"] {
        assert!(!defaults.covers(media), "{media}");
    }
    assert!(everything.covers("application/zip") && !everything.covers("application/octet-stream"));
    assert!(!AllowedTypes::new(&["pdf".to_owned(), "*".to_owned(), String::new()]).covers("application/pdf"));
}

//! Texts: whether a file is one, and which forms of text show themselves at the beginning.
//!
//! Owns signs that a person who reads the file would go by. They find what was renamed, not what was hidden with care:
//! a script runs by its extension or its declared type, and those are looked at too.

use std::borrow::Cow;

/// How much of a text is searched for the signs of its form.
const HEAD: usize = 4096;

/// The forms that are recognised.
pub(super) const FORMS: [&str; 17] = [
    "application/pdf",
    "application/postscript",
    "application/rtf",
    "application/x-bat",
    "application/x-httpd-php",
    "application/x-mso-xml",
    "application/x-powershell",
    "application/x-url-shortcut",
    "application/xml",
    "image/svg+xml",
    "text/calendar",
    "text/html",
    "text/javascript",
    "text/vbscript",
    "text/vcard",
    "text/x-ms-regedit",
    "text/x-shellscript",
];

/// What a text of that form begins with, in lower case, after white space.
const BEGINNINGS: [(&str, &str); 33] = [
    ("begin:vcalendar", "text/calendar"),
    ("begin:vcard", "text/vcard"),
    ("{\\rtf", "application/rtf"),
    ("%!ps", "application/postscript"),
    ("[internetshortcut]", "application/x-url-shortcut"),
    ("[desktop entry]", "application/x-url-shortcut"),
    ("windows registry editor", "text/x-ms-regedit"),
    ("regedit4", "text/x-ms-regedit"),
    ("@echo", "application/x-bat"),
    ("@setlocal", "application/x-bat"),
    ("@start ", "application/x-bat"),
    ("@powershell", "application/x-bat"),
    ("setlocal ", "application/x-bat"),
    ("#requires ", "application/x-powershell"),
    ("param(", "application/x-powershell"),
    ("param (", "application/x-powershell"),
    ("[cmdletbinding", "application/x-powershell"),
    ("set-strictmode", "application/x-powershell"),
    ("$erroractionpreference", "application/x-powershell"),
    ("powershell -", "application/x-powershell"),
    ("powershell.exe", "application/x-powershell"),
    ("invoke-expression", "application/x-powershell"),
    ("iex(", "application/x-powershell"),
    ("iex (", "application/x-powershell"),
    ("#@~^", "text/vbscript"),
    ("on error resume next", "text/vbscript"),
    ("option explicit", "text/vbscript"),
    ("'use strict'", "text/javascript"),
    ("\"use strict\"", "text/javascript"),
    ("(function", "text/javascript"),
    ("!function", "text/javascript"),
    ("<?php", "application/x-httpd-php"),
    ("<?=", "application/x-httpd-php"),
];

/// What the beginning of a text of that form holds somewhere, in lower case.
const SIGNS: [(&str, &str); 9] = [
    ("new-object net.webclient", "application/x-powershell"),
    ("new-object system.net.webclient", "application/x-powershell"),
    ("[convert]::frombase64string", "application/x-powershell"),
    ("wscript.createobject", "text/vbscript"),
    ("createobject(\"wscript.shell\")", "text/vbscript"),
    ("new activexobject", "text/javascript"),
    ("document.write(", "text/javascript"),
    ("require('child_process')", "text/javascript"),
    ("require(\"child_process\")", "text/javascript"),
];

/// What tells HTML from other markup, in lower case.
const HTML_SIGNS: [&str; 14] = [
    "<!doctype html",
    "<html",
    "<head",
    "<body",
    "<script",
    "<iframe",
    "<style",
    "<table",
    "<div",
    "<p>",
    "<a ",
    "<img",
    "<meta",
    "<br",
];

/// What bytes are when read as text.
pub(super) enum Reading<'a> {
    /// A text; what could not be decoded is replaced.
    Text(Cow<'a, str>),
    /// No text.
    Binary,
}

/// Reads bytes as UTF-8, as UTF-16 with its mark, or as any charset that has ASCII's control characters and no more.
pub(super) fn read(content: &[u8]) -> Reading<'_> {
    let units = |decode: fn([u8; 2]) -> u16| {
        let pairs = content[2..].chunks_exact(2).map(|pair| decode([pair[0], pair[1]]));
        let text: Result<String, _> = char::decode_utf16(pairs).collect();
        text.ok()
            .filter(|text| content.len().is_multiple_of(2) && !text.chars().any(|c| c.is_control() && !is_layout(c)))
    };
    let text = match content {
        [0xff, 0xfe, ..] => units(u16::from_le_bytes).map(Cow::Owned),
        [0xfe, 0xff, ..] => units(u16::from_be_bytes).map(Cow::Owned),
        _ if content.iter().any(|b| b.is_ascii_control() && !is_layout(char::from(*b))) => None,
        _ => Some(String::from_utf8_lossy(content)),
    };
    text.map_or(Reading::Binary, Reading::Text)
}

/// The control characters that texts have: tab, line ends, form feed, and the escape of coloured logs.
fn is_layout(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | '\x0c' | '\x1b')
}

/// The form of a text, if it shows one.
pub(super) fn form(text: &str) -> Option<&'static str> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.starts_with("#!") {
        return Some("text/x-shellscript");
    }
    let text = text.trim_start();
    let head = text[..text.floor_char_boundary(HEAD)].to_ascii_lowercase();
    let begins = BEGINNINGS.iter().find(|(beginning, _)| head.starts_with(beginning));
    let shows = || SIGNS.iter().find(|(sign, _)| head.contains(sign));
    let named = begins.map(|(_, media)| *media).or_else(|| markup(text, &head)).or_else(|| assignment(&head));
    named.or_else(|| shows().map(|(_, media)| *media))
}

/// The form of a text in angle brackets. All of it is searched for what would make a browser run it.
fn markup(text: &str, head: &str) -> Option<&'static str> {
    let tag = head.strip_prefix('<')?;
    let name = tag.split(|c: char| c.is_whitespace() || c == '>' || c == '/').next().unwrap_or_default();
    let is_name = name.starts_with(['!', '?']) || name.starts_with(|c: char| c.is_ascii_alphabetic());
    if !is_name || name.contains('@') || !head.contains('>') {
        return None;
    }
    if head.contains("<?mso-application") || text.contains("macrosPresent=") {
        return Some("application/x-mso-xml");
    }
    if head.contains("<svg") || text.contains("http://www.w3.org/2000/svg") {
        return Some("image/svg+xml");
    }
    let active = ["http://www.w3.org/1999/xhtml", "http://www.w3.org/1999/XSL/Transform", "<?xml-stylesheet"];
    let html = HTML_SIGNS.iter().any(|sign| head.contains(sign)) || active.iter().any(|sign| text.contains(sign));
    Some(if html { "text/html" } else { "application/xml" })
}

/// JavaScript by its first words: `const name = …`, `function name(`.
fn assignment(head: &str) -> Option<&'static str> {
    let (keyword, rest) = head.split_once(' ')?;
    let name_end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '$'))?;
    let after = rest[name_end..].trim_start();
    let script = match keyword {
        "var" | "let" | "const" => after.starts_with('=') || after.starts_with(';'),
        "function" => after.starts_with('('),
        _ => false,
    };
    script.then_some("text/javascript")
}

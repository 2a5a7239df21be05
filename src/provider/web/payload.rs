//! The bytes of a request on their way out.
//!
//! Owns the encoding of attachments while they are sent, and the knowledge whether a byte was handed over; knows
//! nothing of what the bytes mean.

use std::{
    collections::VecDeque,
    convert::Infallible,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use memchr::memmem;
use serde::Serialize;
use sha2::{Digest, Sha256};

/// How much of an attachment is encoded at a time. A multiple of three, so that padding comes at the end only.
const STEP: usize = 48 * 1024;

/// A part of a request's body.
#[derive(Clone, Debug)]
pub(in crate::provider) enum Piece {
    /// Goes out as it is.
    Plain(Bytes),
    /// Goes out in base64 (RFC 4648, section 4).
    Base64(Bytes),
}

impl Piece {
    fn encoded_len(&self) -> u64 {
        let len = match self {
            Piece::Plain(bytes) => bytes.len(),
            Piece::Base64(bytes) => bytes.len().div_ceil(3) * 4,
        };
        len as u64
    }
}

/// The body of a request. Its length is known from the beginning, and a large attachment is never in memory a second
/// time: it is encoded step by step as the connection takes it.
#[derive(Debug)]
pub(in crate::provider) struct Payload {
    pieces: VecDeque<Piece>,
    begun: Begun,
}

/// Whether a byte of the body was handed to the connection.
#[derive(Clone, Debug, Default)]
pub(in crate::provider) struct Begun(Arc<AtomicBool>);

impl Begun {
    /// Whether it was.
    pub(in crate::provider) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl Payload {
    /// A body of those pieces.
    pub(in crate::provider) fn new(pieces: Vec<Piece>) -> Self {
        let pieces = pieces.into_iter().filter(|piece| piece.encoded_len() > 0).collect();
        Self { pieces, begun: Begun::default() }
    }

    /// How many bytes are still to go out.
    pub(in crate::provider) fn remaining(&self) -> u64 {
        self.pieces.iter().map(Piece::encoded_len).sum()
    }

    /// The SHA-256 of what goes out, in hexadecimal digits.
    pub(in crate::provider) fn sha256(&self) -> String {
        let mut copy = Self { pieces: self.pieces.clone(), begun: Begun::default() };
        let mut hash = Sha256::new();
        while let Some(chunk) = copy.next_chunk() {
            hash.update(&chunk);
        }
        hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// What tells, after the body was given away, whether a byte of it was taken.
    pub(in crate::provider) fn begun(&self) -> Begun {
        self.begun.clone()
    }

    fn next_chunk(&mut self) -> Option<Bytes> {
        match self.pieces.pop_front()? {
            Piece::Plain(bytes) => Some(bytes),
            Piece::Base64(mut bytes) => {
                let step = bytes.split_to(bytes.len().min(STEP));
                if !bytes.is_empty() {
                    self.pieces.push_front(Piece::Base64(bytes));
                }
                Some(BASE64_STANDARD.encode(step).into())
            }
        }
    }
}

/// Contents that stand in JSON as texts of base64, and are not encoded before they are sent.
#[derive(Debug)]
pub(in crate::provider) struct Contents {
    /// What no text of a message can hold by chance or on purpose.
    mark: String,
    held: Vec<Bytes>,
}

impl Contents {
    /// None so far.
    pub(in crate::provider) fn new() -> Self {
        Self { mark: format!("content-{:032x}-", rand::random::<u128>()), held: Vec::new() }
    }

    /// Keeps a content, and gives the text that stands for it in the JSON.
    pub(in crate::provider) fn hold(&mut self, content: &Bytes) -> String {
        self.held.push(content.clone());
        // Digits of one length, so that no text stands in the beginning of another.
        format!("{}{:08}", self.mark, self.held.len() - 1)
    }

    /// The JSON with the contents in their places.
    pub(in crate::provider) fn put_into(self, json: &impl Serialize) -> serde_json::Result<Payload> {
        let mut rest = Bytes::from(serde_json::to_vec(json)?);
        let mut pieces = Vec::new();
        while let Some(start) = memmem::find(&rest, self.mark.as_bytes()) {
            pieces.push(Piece::Plain(rest.split_to(start)));
            let text = rest.split_to(self.mark.len() + 8);
            let place = std::str::from_utf8(&text[self.mark.len()..]).ok().and_then(|text| text.parse::<usize>().ok());
            pieces.extend(place.and_then(|place| self.held.get(place)).cloned().map(Piece::Base64));
        }
        pieces.push(Piece::Plain(rest));
        Ok(Payload::new(pieces))
    }
}

impl Body for Payload {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.begun.0.store(true, Ordering::Release);
        Poll::Ready(self.next_chunk().map(|chunk| Ok(Frame::data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        self.pieces.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.remaining())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_out_is_base64_of_the_whole_whatever_its_length() {
        for len in [0, 1, 2, 3, STEP - 1, STEP, STEP + 1, 3 * STEP + 2] {
            let content: Vec<u8> = (0..len).map(|place| (place % 251) as u8).collect();
            let quote = || Piece::Plain(Bytes::from_static(b"\""));
            let mut payload = Payload::new(vec![quote(), Piece::Base64(content.clone().into()), quote()]);
            let announced = payload.remaining();
            let mut sent = Vec::new();
            while let Some(chunk) = payload.next_chunk() {
                sent.extend_from_slice(&chunk);
                assert_eq!(payload.remaining(), announced - sent.len() as u64, "while {len} bytes go out");
            }
            assert_eq!(String::from_utf8(sent).unwrap(), format!("\"{}\"", BASE64_STANDARD.encode(&content)));
        }
    }

    #[test]
    fn contents_stand_where_their_texts_stood() {
        let (mut contents, mut sent) = (Contents::new(), Vec::new());
        let texts: Vec<String> = (0..12).map(|n| contents.hold(&Bytes::from(vec![n; usize::from(n)]))).collect();
        let json = serde_json::json!({"a": texts[1], "b": [texts[11], texts[0]], "c": "content-0"});
        let mut payload = contents.put_into(&json).unwrap();
        while let Some(chunk) = payload.next_chunk() {
            sent.extend_from_slice(&chunk);
        }
        let sent: serde_json::Value = serde_json::from_slice(&sent).unwrap();
        let eleven = BASE64_STANDARD.encode([11; 11]);
        assert_eq!(sent, serde_json::json!({"a": "AQ==", "b": [eleven, ""], "c": "content-0"}));
    }
}

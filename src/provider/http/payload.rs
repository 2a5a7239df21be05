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

/// How much of an attachment is encoded at a time. A multiple of three, so that padding comes at the end only.
const STEP: usize = 48 * 1024;

/// A part of a request's body.
#[derive(Clone, Debug)]
pub(super) enum Piece {
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
pub(super) struct Payload {
    pieces: VecDeque<Piece>,
    begun: Begun,
}

/// Whether a byte of the body was handed to the connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Begun(Arc<AtomicBool>);

impl Begun {
    /// Whether it was.
    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl Payload {
    /// A body of those pieces.
    pub(super) fn new(pieces: Vec<Piece>) -> Self {
        let pieces = pieces.into_iter().filter(|piece| piece.encoded_len() > 0).collect();
        Self { pieces, begun: Begun::default() }
    }

    /// How many bytes are still to go out.
    pub(super) fn remaining(&self) -> u64 {
        self.pieces.iter().map(Piece::encoded_len).sum()
    }

    /// What tells, after the body was given away, whether a byte of it was taken.
    pub(super) fn begun(&self) -> Begun {
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
}

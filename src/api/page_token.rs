//! The token by which a list goes on: where it has come, bound to what it is a list of.
//!
//! Owns its form, which is nobody else's business; finds no message.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use prost::Message as _;
use sha2::{Digest as _, Sha256};
use tonic::Status;

use super::status;
use crate::{outbox::Cursor, proto::v1 as pb};

/// The first byte: by which form it was made.
const VERSION: u8 = 1;

/// How many bytes of the hash of the filter it has.
const BINDING: usize = 8;

/// The token for the rest of a list.
pub(super) fn write(filter: Option<&pb::MessageFilter>, cursor: Cursor) -> String {
    let bytes = [&[VERSION][..], &cursor.into_bytes(), &binding(filter)].concat();
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Where the list has come; `None` for its beginning.
pub(super) fn read(filter: Option<&pb::MessageFilter>, token: &str) -> Result<Option<Cursor>, Status> {
    if token.is_empty() {
        return Ok(None);
    }
    let unknown = || status::invalid_field("page_token", "is not one that an answer had");
    let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| unknown())?;
    let (&[VERSION], rest) = bytes.split_first_chunk::<1>().ok_or_else(unknown)? else { return Err(unknown()) };
    let (&cursor, bound_to) = rest.split_first_chunk::<16>().ok_or_else(unknown)?;
    if bound_to.len() != BINDING {
        return Err(unknown());
    }
    if bound_to != binding(filter) {
        return Err(status::invalid_field("page_token", "belongs to a list with another filter"));
    }
    Ok(Some(Cursor::from_bytes(cursor)))
}

/// No filter and an empty one are the same.
fn binding(filter: Option<&pb::MessageFilter>) -> [u8; BINDING] {
    let bytes = filter.map(|filter| filter.encode_to_vec()).unwrap_or_default();
    let hash: [u8; 32] = Sha256::digest(bytes).into();
    std::array::from_fn(|nth| hash[nth])
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn filter(client: &str) -> pb::MessageFilter {
        pb::MessageFilter { client: client.into(), ..Default::default() }
    }

    #[test]
    fn a_token_is_read_back_for_the_same_filter_alone() {
        let cursor = Cursor::from_bytes([7; 16]);
        let (shop, other, none) = (filter("shop"), filter("other"), pb::MessageFilter::default());
        let token = write(Some(&shop), cursor);
        assert_eq!(read(Some(&shop), &token).unwrap(), Some(cursor));
        assert!(read(Some(&other), &token).is_err() && read(None, &token).is_err());
        assert_eq!(read(None, &write(Some(&none), cursor)).unwrap(), Some(cursor));
        assert_eq!(read(Some(&shop), "").unwrap(), None);
    }

    #[test]
    fn what_was_never_a_token_is_refused() {
        let token = write(None, Cursor::from_bytes([7; 16]));
        let cut_off = &token[..token.len() - 2];
        let of_another_form = URL_SAFE_NO_PAD.encode([&[2][..], &[7; 24]].concat());
        for wrong in ["x", "not base64!", cut_off, &format!("{token}AA"), &of_another_form] {
            assert!(read(None, wrong).is_err(), "{wrong}");
        }
    }
}

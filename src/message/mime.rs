//! The MIME form of a message: the same bytes whenever it is rendered.
//!
//! Owns the headers and the encoding; knows nothing of envelopes or providers.

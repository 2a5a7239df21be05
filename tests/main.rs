//! The integration tests, in one program so that they are linked once.

mod map;

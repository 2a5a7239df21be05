//! What the commands write.
//!
//! Owns the two streams; what is said on them is the commands'.

use std::io::{self, ErrorKind, Write};

use super::Failure;

/// Writes an answer to standard output. A reader that has gone has what it wanted (`postrider status … | head -1`).
pub(super) fn answer(text: &str) -> Result<(), Failure> {
    write(&mut io::stdout().lock(), text)
}

/// Writes a remark to standard error, so that what reads the answer does not meet it.
pub(super) fn remark(text: &str) -> Result<(), Failure> {
    write(&mut io::stderr().lock(), &format!("postrider: {text}\n"))
}

fn write(stream: &mut impl Write, text: &str) -> Result<(), Failure> {
    match stream.write_all(text.as_bytes()).and_then(|()| stream.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::Other(format!("cannot write what there is to say: {error}")))
        }
        _ => Ok(()),
    }
}

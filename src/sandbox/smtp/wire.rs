//! The bytes of an SMTP connection: command lines, the data up to its dot, replies.
//!
//! Owns where a line and the data end, and their limits; knows no command.

use std::{fmt::Display, io};

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// The longest command line that is read. RFC 5321, section 4.5.3.1.4, asks for 512 octets and has extensions add to
/// it; that of AUTH (RFC 4954, section 4) wants 12,288.
const LONGEST_COMMAND: usize = 12_288;
/// The longest line of data without its CRLF and without a stuffed dot (RFC 5321, section 4.5.3.1.6).
const LONGEST_DATA_LINE: usize = 998;
/// How much is read at a time.
const CHUNK: usize = 16 * 1024;

/// What a connection is made of: a TCP stream, perhaps under TLS.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// One connection.
pub(super) struct Wire {
    stream: Box<dyn Stream>,
    input: BytesMut,
    output: Vec<u8>,
}

/// A command line as it came.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CommandLine {
    /// A line without its CRLF.
    Line(String),
    /// A line that holds a bare CR or LF, a zero, or is no UTF-8.
    Malformed,
    /// More than a command line may hold, and no end of it: what follows cannot be made sense of.
    Endless,
    /// The client is gone.
    Closed,
}

/// The data of a mail as it came.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Data {
    /// The bytes up to the dot, stuffed dots removed.
    Whole(Bytes),
    /// It was larger than allowed.
    TooLarge,
    /// A line was longer than allowed.
    LineTooLong,
    /// The client is gone before the dot.
    Closed,
}

impl Wire {
    pub(super) fn new(stream: Box<dyn Stream>) -> Self {
        Self { stream, input: BytesMut::with_capacity(CHUNK), output: Vec::new() }
    }

    /// The stream, for TLS. Replies have gone out; what the client sent in clear text beyond its command is lost, so
    /// that it is never taken for something that came under TLS.
    pub(super) fn into_stream(self) -> Box<dyn Stream> {
        self.stream
    }

    /// Writes a reply; it goes out when the client has nothing more to say (RFC 2920, section 3.2).
    pub(super) fn reply(&mut self, reply: impl Display) {
        use std::io::Write;
        // Writing to memory does not fail.
        write!(self.output, "{reply}\r\n").unwrap_or_default();
    }

    /// Sends what was replied.
    pub(super) async fn flush(&mut self) -> io::Result<()> {
        if self.output.is_empty() {
            return Ok(());
        }
        self.stream.write_all(&self.output).await?;
        self.output.clear();
        self.stream.flush().await
    }

    /// Sends what was replied and says that nothing more comes.
    pub(super) async fn close(mut self) -> io::Result<()> {
        self.flush().await?;
        self.stream.shutdown().await
    }

    /// The next command line. Only CRLF ends it.
    pub(super) async fn command(&mut self) -> io::Result<CommandLine> {
        let mut seen = 0;
        loop {
            if let Some(end) = find_crlf(&self.input, seen) {
                let line = self.input.split_to(end + 2);
                return Ok(read_line(&line[..end]));
            }
            if self.input.len() > LONGEST_COMMAND {
                return Ok(CommandLine::Endless);
            }
            seen = self.input.len().saturating_sub(1);
            if self.fill().await? == 0 {
                return Ok(CommandLine::Closed);
            }
        }
    }

    /// The data up to CRLF.CRLF and nothing else (RFC 5321, section 4.1.1.4): a dot between bare line feeds is content,
    /// or one mail could smuggle in another.
    pub(super) async fn data(&mut self, largest: usize) -> io::Result<Data> {
        let mut data = BytesMut::new();
        let (mut too_large, mut too_long) = (false, false);
        loop {
            let Some(line) = self.data_line(&mut too_long).await? else { return Ok(Data::Closed) };
            if &line[..] == b".\r\n" {
                break;
            }
            let line = line.strip_prefix(b".").unwrap_or(&line);
            too_long |= line.len() > LONGEST_DATA_LINE + 2;
            too_large |= data.len() + line.len() > largest;
            if !too_large && !too_long {
                data.extend_from_slice(line);
            }
        }
        Ok(match (too_large, too_long) {
            (true, _) => Data::TooLarge,
            (_, true) => Data::LineTooLong,
            _ => Data::Whole(data.freeze()),
        })
    }

    /// Reads and throws away until the client closes.
    pub(super) async fn swallow(&mut self) -> io::Result<()> {
        loop {
            self.input.clear();
            if self.fill().await? == 0 {
                return Ok(());
            }
        }
    }

    /// The next line of data with its CRLF. Of one that is too long only an end that cannot be the dot.
    async fn data_line(&mut self, too_long: &mut bool) -> io::Result<Option<BytesMut>> {
        let mut seen = 0;
        loop {
            if let Some(end) = find_crlf(&self.input, seen) {
                return Ok(Some(self.input.split_to(end + 2)));
            }
            if self.input.len() > 4 * CHUNK {
                *too_long = true;
                // What stays begins a line longer than a dot, and keeps a CR whose LF is still to come.
                let surplus = self.input.len() - 4;
                self.input = BytesMut::from(&self.input[surplus..]);
            }
            seen = self.input.len().saturating_sub(1);
            if self.fill().await? == 0 {
                return Ok(None);
            }
        }
    }

    async fn fill(&mut self) -> io::Result<usize> {
        self.flush().await?;
        self.input.reserve(CHUNK);
        self.stream.read_buf(&mut self.input).await
    }
}

/// Where the first CRLF begins, at that place or later.
fn find_crlf(bytes: &[u8], from: usize) -> Option<usize> {
    let mut from = from;
    while let Some(at) = bytes[from..].iter().position(|byte| *byte == b'\n').map(|at| from + at) {
        if at > 0 && bytes[at - 1] == b'\r' {
            return Some(at - 1);
        }
        from = at + 1;
    }
    None
}

fn read_line(line: &[u8]) -> CommandLine {
    if line.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)) {
        return CommandLine::Malformed;
    }
    match std::str::from_utf8(line) {
        Ok(line) => CommandLine::Line(line.to_owned()),
        Err(_) => CommandLine::Malformed,
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::DuplexStream;

    use super::*;

    /// A wire to which these pieces come one by one.
    fn wire(pieces: &[&[u8]]) -> Wire {
        let (mut client, server): (DuplexStream, DuplexStream) = tokio::io::duplex(1);
        let pieces: Vec<Vec<u8>> = pieces.iter().map(|piece| piece.to_vec()).collect();
        tokio::spawn(async move {
            for piece in pieces {
                client.write_all(&piece).await.expect("it is read");
            }
        });
        Wire::new(Box::new(server))
    }

    async fn data(bytes: &[u8]) -> Data {
        wire(&[bytes]).data(100_000).await.expect("no error")
    }

    fn whole(bytes: &[u8]) -> Data {
        Data::Whole(Bytes::copy_from_slice(bytes))
    }

    #[tokio::test]
    async fn only_a_dot_between_crlfs_ends_the_data() {
        let contents: [&[u8]; 8] = [
            b"a\n.\nb\r\n",
            b"a\n.\r\nMAIL FROM:<x@y>\r\n",
            b"a\r\n.\nb\r\n",
            b"a\r.\rb\r\n",
            b"a\r\n.\rb\r\n",
            b"\n.\n\r\n",
            b"a\r\r\n",
            b"",
        ];
        for content in contents {
            // As a client stuffs that knows only CRLF: that is how a smuggled dot comes through.
            let mut sent = Vec::new();
            for line in content.split_inclusive(|byte| *byte == b'\n') {
                let begins_line = sent.is_empty() || sent.ends_with(b"\r\n");
                if begins_line && line.starts_with(b".") {
                    sent.push(b'.');
                }
                sent.extend_from_slice(line);
            }
            sent.extend_from_slice(b".\r\n");
            assert_eq!(data(&sent).await, whole(content), "{:?}", String::from_utf8_lossy(content));
        }
    }

    #[tokio::test]
    async fn stuffed_dots_are_removed_and_others_stay() {
        assert_eq!(data(b"..\r\n...a\r\n.b\r\nc.\r\n.\r\n").await, whole(b".\r\n..a\r\nb\r\nc.\r\n"));
    }

    #[tokio::test]
    async fn data_without_its_dot_is_no_mail() {
        assert_eq!(data(b"half a mail\r\n.").await, Data::Closed);
    }

    #[tokio::test]
    async fn a_line_of_998_octets_passes_and_a_longer_one_is_told_after_the_dot() {
        let line = |length: usize| [vec![b'x'; length], b"\r\n".to_vec()].concat();
        assert_eq!(data(&[line(998), b".\r\n".to_vec()].concat()).await, whole(&line(998)));
        assert_eq!(data(&[b".".to_vec(), line(998), b".\r\n".to_vec()].concat()).await, whole(&line(998)));
        assert_eq!(data(&[line(999), b".\r\n".to_vec()].concat()).await, Data::LineTooLong);
        let mut wire = wire(&[&line(90_000), b"\n.\r\n", b"\r\n.\r\n", b"QUIT\r\n"]);
        assert_eq!(wire.data(100_000).await.expect("no error"), Data::LineTooLong);
        assert_eq!(wire.command().await.expect("no error"), CommandLine::Line("QUIT".into()));
    }

    #[tokio::test]
    async fn too_much_data_is_read_to_its_dot_and_not_kept() {
        let line = [vec![b'x'; 98], b"\r\n".to_vec()].concat();
        let mut wire = wire(&[&line.repeat(11), b".\r\nNOOP\r\n"]);
        assert_eq!(wire.data(1_000).await.expect("no error"), Data::TooLarge);
        assert_eq!(wire.command().await.expect("no error"), CommandLine::Line("NOOP".into()));
    }

    #[tokio::test]
    async fn a_command_ends_at_crlf_and_holds_nothing_bare() {
        let mut first = wire(&[b"NOOP\r", b"\nMAIL\nRCPT\r\nA\0B\r\n\xff\r\n"]);
        assert_eq!(first.command().await.expect("no error"), CommandLine::Line("NOOP".into()));
        for _ in 0..3 {
            assert_eq!(first.command().await.expect("no error"), CommandLine::Malformed);
        }
        assert_eq!(first.command().await.expect("no error"), CommandLine::Closed);
        let mut endless = wire(&[&vec![b'x'; 20_000]]);
        assert_eq!(endless.command().await.expect("no error"), CommandLine::Endless);
    }
}

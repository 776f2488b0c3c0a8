//! Text that may be compressed, or transcribed while it is read.

use std::io::{self, BufReader, Read};
use std::sync::OnceLock;

use crate::text::{Compression, transcribed};

/// Why compressed text ends before its end.
#[derive(Default)]
pub(super) struct Cut(OnceLock<String>);

impl Cut {
    /// Why, once all was read; none where it does not.
    pub(super) fn why(&self) -> Option<String> {
        self.0.get().cloned()
    }
}

/// What compressed data give, down to where they are damaged or cut.
struct UpToDamage<'a, R> {
    input: R,
    any: bool,
    cut: &'a Cut,
}

impl<R: Read> Read for UpToDamage<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.cut.0.get().is_some() {
            return Ok(0);
        }
        match self.input.read(buffer) {
            Ok(length) => {
                self.any |= length > 0;
                Ok(length)
            }
            Err(error) if self.any && error.kind() != io::ErrorKind::Interrupted => {
                self.cut.0.get_or_init(|| error.to_string());
                Ok(0)
            }
            Err(error) => Err(error),
        }
    }
}

/// The text of a trace that may be compressed or a log that is transcribed, known from its first bytes; whether it is neither.
pub(super) fn decompressed<'a>(
    mut input: impl Read + Send + 'a,
    cut: &'a Cut,
) -> io::Result<(Box<dyn Read + Send + 'a>, bool)> {
    let up_to_damage = |input: Box<dyn Read + Send + 'a>| -> Box<dyn Read + Send + 'a> {
        Box::new(UpToDamage {
            input,
            any: false,
            cut,
        })
    };
    let mut first = Vec::new();
    (&mut input).take(4).read_to_end(&mut first)?;
    let compression = Compression::detect(&first);
    let input = io::Cursor::new(first).chain(input);
    let (input, is_plain): (Box<dyn Read + Send + 'a>, bool) = match compression {
        Compression::None => (Box::new(input), true),
        Compression::Gzip => {
            let input = BufReader::with_capacity(1 << 18, input);
            (
                up_to_damage(Box::new(flate2::bufread::MultiGzDecoder::new(input))),
                false,
            )
        }
        Compression::Zstandard => (up_to_damage(Box::new(zstd::Decoder::new(input)?)), false),
    };
    let (input, is_transcript) = transcribed(input)?;
    Ok((input, is_plain && !is_transcript))
}

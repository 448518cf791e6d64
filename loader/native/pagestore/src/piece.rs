//! Bytes as a frame that zstd itself can unpack: with their number and a checksum.

use std::cell::RefCell;
use std::io;

use common::{Error, Result};
use zstd::bulk::Compressor;
use zstd::zstd_safe::CParameter;

/// What a thread compresses with is made once for all frames.
pub fn compressed_piece(plain: &[u8], level: i32) -> Result<Vec<u8>> {
    thread_local! {
        static CONTEXT: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
    }
    let compress = |context: &RefCell<Option<_>>| {
        let mut context = context.borrow_mut();
        let context = match &mut *context {
            Some(there) => there,
            none => none.insert(checksummed()?),
        };
        context.set_compression_level(level)?;
        context.compress(plain)
    };
    CONTEXT.with(compress).map_err(|error| Error::damaged(error.to_string()))
}

fn checksummed() -> io::Result<Compressor<'static>> {
    let mut made = Compressor::new(0)?;
    made.set_parameter(CParameter::ChecksumFlag(true))?;
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_level_comes_back_and_a_flipped_bit_is_noticed() {
        let plain: Vec<u8> = (0..100_000_u32).flat_map(|n| (n / 7).to_le_bytes()).collect();
        for level in [1, 19, 2] {
            let mut packed = compressed_piece(&plain, level).unwrap();
            assert!(zstd::decode_all(&*packed).unwrap() == plain);
            *packed.last_mut().unwrap() ^= 1; // of the checksum
            assert!(zstd::decode_all(&*packed).is_err());
        }
    }
}

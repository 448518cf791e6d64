//! The contexts of zstd. A thread makes each of its two once, for all frames: one takes 150 KiB and more.

use std::cell::RefCell;
use std::io;
use std::thread::LocalKey;

use common::{Error, Result};
use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe::CParameter;

type Kept<T> = RefCell<Option<T>>;

thread_local! {
    static COMPRESSOR: Kept<Compressor<'static>> = const { RefCell::new(None) };
    static DECOMPRESSOR: Kept<Decompressor<'static>> = const { RefCell::new(None) };
}

fn with<T, R>(
    kept: &'static LocalKey<Kept<T>>,
    make: fn() -> io::Result<T>,
    work: impl FnOnce(&mut T) -> io::Result<R>,
) -> io::Result<R> {
    kept.with_borrow_mut(|kept| match kept {
        Some(there) => work(there),
        none => work(none.insert(make()?)),
    })
}

/// A frame. checked: with a checksum of its own.
pub fn compressed(plain: &[u8], level: i32, checked: bool) -> Result<Vec<u8>> {
    let packed = with(
        &COMPRESSOR,
        || Compressor::new(0),
        |context| {
            context.set_compression_level(level)?;
            context.set_parameter(CParameter::ChecksumFlag(checked))?;
            context.compress(plain)
        },
    );
    packed.map_err(|error| Error::damaged(error.to_string()))
}

/// Bytes as a frame that zstd itself can unpack: with their number and a checksum.
pub fn compressed_piece(plain: &[u8], level: i32) -> Result<Vec<u8>> {
    compressed(plain, level, true)
}

/// What a frame holds, which is no more than `most` bytes.
pub fn decompressed(packed: &[u8], most: usize) -> Result<Vec<u8>> {
    let plain = with(&DECOMPRESSOR, Decompressor::new, |context| context.decompress(packed, most));
    plain.map_err(|error| Error::damaged(format!("a frame cannot be unpacked: {error}")))
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
            assert!(decompressed(&packed, plain.len()).unwrap() == plain);
            *packed.last_mut().unwrap() ^= 1; // of the checksum
            assert!(zstd::decode_all(&*packed).is_err());
            assert!(decompressed(&packed, plain.len()).is_err());
            let bare = compressed(&plain, level, false).unwrap();
            assert_eq!(bare.len() + 4, packed.len());
            assert!(decompressed(&bare, plain.len()).unwrap() == plain);
        }
    }

    #[test]
    fn what_failed_spoils_nothing() {
        let packed = compressed_piece(b"pages", 3).unwrap();
        assert!(decompressed(&packed, 4).is_err());
        assert!(decompressed(b"no frame", 4).is_err());
        assert_eq!(decompressed(&packed, 5).unwrap(), b"pages");
    }
}

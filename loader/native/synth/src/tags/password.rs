//! Hashes passwords in the formats that slapd stores.

use argon2::{Algorithm, Argon2, Block, Params, Version};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use sha1::{Digest as _, Sha1};

use crate::draw::again;

/// Limits of an Argon2 hash: memory in KiB, passes, and their product (about 60 ms).
const MEMORY: u32 = 65_536;
const PASSES: u32 = 10;
const COST: u32 = 65_536;
/// Size of a salted hash in bytes: 20 of SHA-1 and 8 of salt.
const SALTED: usize = 28;

/// Appends a salted SHA-1 hash ({SSHA}), which slapd supports without a module.
pub fn ssha(password: &[u8], bits: u64, out: &mut Vec<u8>) {
    let salt = bits.to_be_bytes();
    let mut salted = [0; SALTED];
    salted[..20].copy_from_slice(&Sha1::new().chain_update(password).chain_update(salt).finalize());
    salted[20..].copy_from_slice(&salt);
    out.extend_from_slice(b"{SSHA}");
    let start = out.len();
    out.resize(start + SALTED.div_ceil(3) * 4, 0);
    // `out` was extended by exactly the encoded size, so encoding cannot fail.
    let _ = STANDARD.encode_slice(salted, &mut out[start..]);
}

/// Returns the parameters of an Argon2id hash, or an error message if they are beyond the limits.
pub fn params(memory: u32, passes: u32) -> Result<Params, String> {
    let is_bounded = (8..=MEMORY).contains(&memory) && (1..=PASSES).contains(&passes);
    if !is_bounded || memory * passes > COST {
        let most = format!("{COST} KiB in all passes together");
        return Err(format!("write 8 to {MEMORY} KiB and 1 to {PASSES} passes, {most}"));
    }
    Params::new(memory, passes, 1, Some(32)).map_err(|error| error.to_string())
}

/// Appends an Argon2id hash as slapd's module argon2 stores it, in the format of the reference implementation.
pub fn argon2(password: &[u8], params: &Params, bits: u64, out: &mut Vec<u8>) {
    let mut salt = [0; 16];
    salt[..8].copy_from_slice(&bits.to_be_bytes());
    salt[8..].copy_from_slice(&again(bits, 1).to_be_bytes());
    let mut hash = [0; 32];
    let hasher = Argon2::new(Algorithm::Argon2id, Version::V0x13, params.clone());
    let mut memory = vec![Block::default(); params.block_count()];
    // Hashing fails only for invalid lengths. The lengths are constant.
    let _ = hasher.hash_password_into_with_memory(password, &salt, &mut hash, &mut memory);
    let (cost, passes) = (params.m_cost(), params.t_cost());
    let (salt, hash) = (STANDARD_NO_PAD.encode(salt), STANDARD_NO_PAD.encode(hash));
    let text = format!("{{ARGON2}}$argon2id$v=19$m={cost},t={passes},p=1${salt}${hash}");
    out.extend_from_slice(text.as_bytes());
}

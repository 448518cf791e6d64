//! Passwords as slapd keeps them.

use argon2::{Algorithm, Argon2, Block, Params, Version};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use sha1::{Digest as _, Sha1};

use super::{EntryContext, Render, Scope, SlotFacts};
use crate::draw::{Stream, again};

#[derive(Debug)]
struct Ssha {
    slot: SlotFacts,
    stream: Stream,
}

/// RFC 2307 salted SHA-1, the hash slapd knows without a module.
pub fn ssha(name: &str, scope: &Scope<'_>) -> Result<Box<dyn Render>, String> {
    Ok(Box::new(Ssha { slot: scope.slot(name)?, stream: scope.stream }))
}

/// SHA-1's 20 bytes and 8 of salt.
const SALTED: usize = 28;

impl Render for Ssha {
    fn write(&self, at: &mut EntryContext<'_>, out: &mut Vec<u8>) {
        let salt = at.bits(self.stream).to_be_bytes();
        let mut salted = [0; SALTED];
        let digest = Sha1::new().chain_update(&at.slots[self.slot.at].text).chain_update(salt);
        salted[..20].copy_from_slice(&digest.finalize());
        salted[20..].copy_from_slice(&salt);
        out.extend_from_slice(b"{SSHA}");
        base64(out, &salted);
    }

    fn most(&self) -> u64 {
        46
    }
}

fn base64(out: &mut Vec<u8>, bytes: &[u8]) {
    let start = out.len();
    out.resize(start + bytes.len().div_ceil(3) * 4, 0);
    // The room is exactly what it takes.
    let _ = STANDARD.encode_slice(bytes, &mut out[start..]);
}

/// What one password may cost: KiB and passes.
const MEMORY: u32 = 65_536;
const PASSES: u32 = 10;
/// KiB times passes: some 60 ms.
const COST: u32 = 65_536;

#[derive(Debug)]
struct Hashed {
    slot: SlotFacts,
    stream: Stream,
    params: Params,
}

/// Argon2id as slapd's module argon2 keeps it: the string of the reference implementation.
pub fn argon2(
    name: &str,
    memory: u32,
    passes: u32,
    scope: &Scope<'_>,
) -> Result<Box<dyn Render>, String> {
    let is_bounded = (8..=MEMORY).contains(&memory) && (1..=PASSES).contains(&passes);
    if !is_bounded || memory * passes > COST {
        let most = format!("{COST} KiB in all passes together");
        return Err(format!("write 8 to {MEMORY} KiB and 1 to {PASSES} passes, {most}"));
    }
    let params = Params::new(memory, passes, 1, Some(32)).map_err(|error| error.to_string())?;
    Ok(Box::new(Hashed { slot: scope.slot(name)?, stream: scope.stream, params }))
}

impl Render for Hashed {
    fn write(&self, at: &mut EntryContext<'_>, out: &mut Vec<u8>) {
        let bits = at.bits(self.stream);
        let mut salt = [0; 16];
        salt[..8].copy_from_slice(&bits.to_be_bytes());
        salt[8..].copy_from_slice(&again(bits, 1).to_be_bytes());
        let mut hash = [0; 32];
        let hasher = Argon2::new(Algorithm::Argon2id, Version::V0x13, self.params.clone());
        let mut memory = vec![Block::default(); self.params.block_count()];
        // It refuses lengths only, and these are given.
        let _ = hasher.hash_password_into_with_memory(
            &at.slots[self.slot.at].text,
            &salt,
            &mut hash,
            &mut memory,
        );
        let (cost, passes) = (self.params.m_cost(), self.params.t_cost());
        out.extend_from_slice(
            format!("{{ARGON2}}$argon2id$v=19$m={cost},t={passes},p=1$").as_bytes(),
        );
        out.extend_from_slice(STANDARD_NO_PAD.encode(salt).as_bytes());
        out.push(b'$');
        out.extend_from_slice(STANDARD_NO_PAD.encode(hash).as_bytes());
    }

    fn most(&self) -> u64 {
        128
    }
}

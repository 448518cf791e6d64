//! Putting values together.

use super::{BOOLEAN, ENUMERATED, INTEGER, OCTETS, SEQUENCE};

/// Appends encoded values to its bytes; reused from message to message.
#[derive(Debug, Default)]
pub struct Writer(Vec<u8>);

impl Writer {
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// What is encoded already.
    pub fn raw(&mut self, encoded: &[u8]) {
        self.0.extend_from_slice(encoded);
    }

    pub fn tagged(&mut self, tag: u8, body: &[u8]) {
        self.0.push(tag);
        push_length(&mut self.0, body.len());
        self.0.extend_from_slice(body);
    }

    pub fn octets(&mut self, body: &[u8]) {
        self.tagged(OCTETS, body);
    }

    pub fn integer(&mut self, value: i32) {
        self.number(INTEGER, value);
    }

    pub fn enumerated(&mut self, value: i32) {
        self.number(ENUMERATED, value);
    }

    pub fn boolean(&mut self, value: bool) {
        self.tagged(BOOLEAN, &[if value { 0xff } else { 0 }]);
    }

    pub fn sequence(&mut self, fill: impl FnOnce(&mut Self)) {
        self.nest(SEQUENCE, fill);
    }

    /// A constructed value with what `fill` appends in it.
    pub fn nest(&mut self, tag: u8, fill: impl FnOnce(&mut Self)) {
        self.0.push(tag);
        let start = self.0.len();
        fill(self);
        let length = self.0.len() - start;
        // How many bytes the length takes is known only now.
        push_length(&mut self.0, length);
        self.0[start..].rotate_left(length);
    }

    /// The fewest bytes that keep its sign.
    fn number(&mut self, tag: u8, value: i32) {
        let bytes = value.to_be_bytes();
        let redundant = |at: &usize| {
            let sign = if bytes[*at + 1] & 0x80 == 0 { 0 } else { 0xff };
            bytes[*at] == sign
        };
        let skipped = (0..3).take_while(redundant).count();
        self.tagged(tag, &bytes[skipped..]);
    }
}

fn push_length(out: &mut Vec<u8>, length: usize) {
    if let Some(short) = u8::try_from(length).ok().filter(|&length| length < 0x80) {
        out.push(short);
        return;
    }
    let bytes = length.to_be_bytes();
    let digits = &bytes[bytes.iter().take_while(|&&byte| byte == 0).count()..];
    out.push(0x80 | u8::try_from(digits.len()).unwrap_or(8));
    out.extend_from_slice(digits);
}

//! What every key and value must be.

use crate::{Error, ErrorKind, Order, Result};

/// `last` is empty before the first.
#[inline]
pub(crate) fn check_order(
    what: &str,
    order: Option<Order>,
    last: &[u8],
    next: &[u8],
) -> Result<()> {
    let ascending = match order {
        Some(order) => order.compare(last, next).is_lt(),
        None => last != next,
    };
    if ascending || last.is_empty() { Ok(()) } else { Err(out_of_order(what, last, next)) }
}

#[cold]
fn out_of_order(what: &str, last: &[u8], next: &[u8]) -> Error {
    let message = format!("{what} {} after {}", next.escape_ascii(), last.escape_ascii());
    Error::new(ErrorKind::Order, message)
}

#[inline]
pub(crate) fn check_size(what: &str, bytes: &[u8], most: usize) -> Result<()> {
    if (1..=most).contains(&bytes.len()) { Ok(()) } else { Err(wrong_size(what, bytes, most)) }
}

#[cold]
fn wrong_size(what: &str, bytes: &[u8], most: usize) -> Error {
    let (kind, problem) = match bytes.len() {
        0 => (ErrorKind::Empty, "LMDB stores no empty ones".to_owned()),
        _ => (ErrorKind::TooLong, format!("LMDB ends at {most}")),
    };
    let start = bytes[..bytes.len().min(40)].escape_ascii();
    Error::new(kind, format!("a {what} of {} bytes ({start}); {problem}", bytes.len()))
}

pub(crate) fn programming_error(message: &str) -> Error {
    Error::new(ErrorKind::Misuse, message)
}

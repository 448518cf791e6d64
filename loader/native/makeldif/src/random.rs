//! The arguments of `<random:...>`.

use super::error::Result;
use super::format::Format;
use super::syntax::Random;
use super::tag::Arguments;

use synth::problem::suggestion;

const KINDS: [&str; 9] =
    ["alpha", "alphanumeric", "base64", "chars", "hex", "month", "numeric", "telephone", "uuid"];
const ALPHA: &str = "abcdefghijklmnopqrstuvwxyz";
const DIGITS: &str = "0123456789";
const UPPER: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
/// Characters of a value.
const LONGEST: usize = 1 << 20;

/// What stands behind `random:`.
pub fn parse(arguments: &Arguments) -> Result<Random> {
    let Some(kind) = arguments.all.first() else {
        return arguments.wrong(format!("Random needs a kind: {}", KINDS.join(", ")));
    };
    match kind.to_ascii_lowercase().as_str() {
        "alpha" => characters(arguments, ALPHA.to_owned(), 1),
        "alphanumeric" => characters(arguments, format!("{ALPHA}{DIGITS}"), 1),
        "hex" => characters(arguments, format!("{DIGITS}abcdef"), 1),
        "base64" => characters(arguments, format!("{UPPER}{ALPHA}{DIGITS}+/"), 1),
        "chars" => {
            arguments.between(3, 4)?;
            characters(arguments, arguments.all[1].to_owned(), 2)
        }
        "numeric" if arguments.all.len() == 2 => characters(arguments, DIGITS.to_owned(), 1),
        "numeric" => number(arguments),
        "month" => month(arguments),
        "telephone" => Ok(Random::Telephone),
        // Not of OpenDJ, which has GUID; others have it.
        "uuid" => Ok(Random::Uuid),
        other => arguments.wrong(format!("Random knows no {other}{}", suggestion(other, KINDS))),
    }
}

/// One length, or two that it lies between.
fn characters(arguments: &Arguments, of: String, at: usize) -> Result<Random> {
    arguments.between(at + 1, at + 2)?;
    let least = arguments.number(at, 0, LONGEST)?;
    let most = if arguments.all.len() > at + 1 {
        arguments.number(at + 1, least, LONGEST)?
    } else {
        least
    };
    Ok(Random::Characters { of, least, most })
}

fn number(arguments: &Arguments) -> Result<Random> {
    arguments.between(2, 4)?;
    let low = arguments.number(1, i64::MIN, i64::MAX)?;
    let high = arguments.number(2, low, i64::MAX)?;
    let format = match arguments.all.get(3).map(|pattern| Format::parse(pattern)) {
        Some(Err(message)) => return arguments.wrong(message),
        Some(Ok(format)) => Some(format),
        None => None,
    };
    Ok(Random::Number { low, high, format })
}

fn month(arguments: &Arguments) -> Result<Random> {
    arguments.between(1, 2)?;
    let longest =
        if arguments.all.len() == 2 { arguments.number(1, 1, usize::MAX)? } else { usize::MAX };
    Ok(Random::Month { longest })
}

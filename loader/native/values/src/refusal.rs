use std::borrow::Cow;
use std::fmt;

/// Why a value was refused: a short clause without the value, e.g. "not valid UTF-8".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidValue(pub Cow<'static, str>);

impl InvalidValue {
    /// For `ok_or` and the like.
    pub(crate) const fn new(clause: &'static str) -> Self {
        Self(Cow::Borrowed(clause))
    }

    /// Accepts when `holds`.
    pub(crate) fn unless(holds: bool, clause: &'static str) -> Result<(), Self> {
        if holds { Ok(()) } else { Err(Self::new(clause)) }
    }
}

impl fmt::Display for InvalidValue {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for InvalidValue {}

/// The refusal as the result of whatever was asked for.
pub fn refuse<T>(clause: impl Into<Cow<'static, str>>) -> Result<T, InvalidValue> {
    Err(InvalidValue(clause.into()))
}

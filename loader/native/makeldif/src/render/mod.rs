//! Writing what stands for this language's own tags.

mod cut;
mod names;
pub mod path;
mod random;
mod sequence;

use synth::tags::{Render, Scope};

use super::own::Own;

pub fn compile(tag: &Own, scope: &Scope<'_>) -> Result<Box<dyn Render>, String> {
    match tag {
        Own::Cut { names, characters } => cut::cut(names, *characters, scope),
        Own::Path { whose, parts, separator } => Ok(path::path(*whose, *parts, *separator, scope)),
        Own::Line { list, order } => sequence::line(list, order, scope),
        Own::Name(name) => names::name(name, scope),
        Own::Characters { of, least, most } => Ok(random::characters(of, *least, *most, scope)),
        Own::Number { low, high, format } => {
            Ok(random::number(*low, *high, format.as_ref(), scope))
        }
        Own::Sequence { start, order } => Ok(sequence::sequence(*start, order)),
    }
}

//! Writing what stands for this language's own tags.

mod cut;
mod names;
pub mod path;
mod random;
mod sequence;

use synth::tags::{Render, Scope};

use super::tags::MakeldifTag;

pub fn compile(tag: &MakeldifTag, scope: &Scope<'_>) -> Result<Box<dyn Render>, String> {
    match tag {
        MakeldifTag::Cut { names, characters } => cut::cut(names, *characters, scope),
        MakeldifTag::Path { whose, parts, separator } => {
            Ok(path::path(*whose, *parts, *separator, scope))
        }
        MakeldifTag::Line { list, order } => sequence::line(list, order, scope),
        MakeldifTag::Name(name) => names::name(name, scope),
        MakeldifTag::Characters { of, least, most } => {
            Ok(random::characters(of, *least, *most, scope))
        }
        MakeldifTag::Number { low, high, format } => {
            Ok(random::number(*low, *high, format.as_ref(), scope))
        }
        MakeldifTag::Sequence { start, order } => Ok(sequence::sequence(*start, order)),
    }
}

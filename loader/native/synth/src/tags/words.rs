//! Words of vocabularies that were learned.

use std::sync::Arc;

use super::{EntryContext, Render, Scope};
use crate::distribution::{Distribution, Sampler};
use crate::draw::{Stream, again};
use crate::permute::Permutation;
use crate::problem::suggestion;
use crate::vocabulary::Vocabulary;

/// Words of one value, at most.
const MOST: u64 = 1 << 20;

fn find(name: &str, scope: &Scope<'_>) -> Result<Arc<Vocabulary>, String> {
    let all = &scope.learned.vocabularies;
    all.iter().find(|one| one.name() == name).cloned().ok_or_else(|| {
        let known = all.iter().map(|one| one.name());
        format!("there is no vocabulary {name:?} in [words]{}", suggestion(name, known))
    })
}

#[derive(Debug)]
struct Word {
    stream: Stream,
    words: Arc<Vocabulary>,
}

pub fn word(name: &str, scope: &Scope<'_>) -> Result<Box<dyn Render>, String> {
    Ok(Box::new(Word { stream: scope.stream, words: find(name, scope)? }))
}

impl Render for Word {
    fn write(&self, at: &mut EntryContext<'_>, out: &mut Vec<u8>) {
        self.words.draw(at.bits(self.stream), out);
    }

    fn most(&self) -> u64 {
        self.words.most()
    }

    fn is_printable(&self) -> bool {
        self.words.is_ascii()
    }
}

#[derive(Debug)]
struct NewWord {
    stream: Stream,
    words: Arc<Vocabulary>,
    all: Permutation,
    count: u64,
}

pub fn new_word(name: &str, scope: &Scope<'_>) -> Result<Box<dyn Render>, String> {
    let count = scope.count();
    let all = Permutation::new(count);
    Ok(Box::new(NewWord { stream: scope.stream, words: find(name, scope)?, all, count }))
}

impl Render for NewWord {
    fn write(&self, at: &mut EntryContext<'_>, out: &mut Vec<u8>) {
        let number = self.all.of(self.stream, at.index);
        // Another value of the same entry is no name: it need not differ from those of others.
        self.words.new_word(at.bits(self.stream.part(1)), number, self.count, out);
    }

    fn most(&self) -> u64 {
        self.words.most() + 20
    }

    fn is_printable(&self) -> bool {
        self.words.is_ascii()
    }
}

#[derive(Debug)]
struct Words {
    word: Word,
    count: Sampler,
    most: u64,
}

pub fn words(
    name: &str,
    count: &Distribution,
    scope: &Scope<'_>,
) -> Result<Box<dyn Render>, String> {
    let most = count.most();
    if most > MOST {
        return Err(format!("{most} words: {MOST} may be written"));
    }
    let word = Word { stream: scope.stream, words: find(name, scope)? };
    Ok(Box::new(Words { word, count: count.drawer()?, most }))
}

impl Render for Words {
    fn write(&self, at: &mut EntryContext<'_>, out: &mut Vec<u8>) {
        let bits = at.bits(self.word.stream);
        for turn in 0..self.count.draw(bits) {
            if turn > 0 {
                out.push(b' ');
            }
            self.word.words.draw(again(bits, turn + 1), out);
        }
    }

    fn most(&self) -> u64 {
        self.most.saturating_mul(self.word.words.most() + 1)
    }

    fn is_printable(&self) -> bool {
        self.word.words.is_ascii()
    }
}

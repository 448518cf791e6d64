//! Attributes whose values others repeat.

use super::{Described, Describing, Line};

impl Describing<'_, '_> {
    /// Others may repeat it, if texts can name it.
    pub(super) fn offer(&mut self, number: usize) {
        let name = &self.names[number];
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if name.bytes().all(fits) && !synth::toml::TAGS.contains(&name.as_str()) {
            self.earlier.push(number);
        }
    }

    /// Attributes that others repeat become values of the entry.
    pub(super) fn share(&self, lines: &mut [(usize, Line)], found: &mut Described) {
        for &number in &self.earlier {
            let name = &self.names[number];
            let tags =
                [format!("{{{name}}}"), format!("{{ascii:{name}}}"), format!("{{ssha:{name}}}")];
            let named = |text: &String| tags.iter().any(|tag| text.contains(tag.as_str()));
            if !self
                .means
                .registry
                .shapes
                .iter()
                .flat_map(|(_, choice)| &choice.texts)
                .any(|(text, _)| named(text))
                && !lines.iter().flat_map(|(_, line)| &line.texts).any(|item| named(&item.text))
            {
                continue;
            }
            let Some((_, line)) = lines.iter_mut().find(|(one, _)| *one == number) else {
                continue;
            };
            let text = std::mem::replace(&mut line.texts[0].text, format!("{{{name}}}"));
            found.values.push((name.clone(), text));
        }
    }
}

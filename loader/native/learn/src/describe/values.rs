//! The text that makes the values of one attribute, by what they are.

use super::Describing;
use crate::registry::Choice;
use crate::schemes::{is_certificate, scheme};
use crate::shapes::shapes;
use crate::text::text;
use crate::toml::histogram;
use crate::value::{ValueKind, hash_lengths, sort};

impl Describing<'_, '_> {
    pub(super) fn text(&mut self, number: usize) -> String {
        let values: Vec<&str> = self.columns.values(number).collect();
        if values.is_empty() {
            // All are too long to be looked at.
            let lengths = &self.attribute(number).lengths;
            return format!("{{chars:base64:histogram:{}}}", histogram(lengths));
        }
        match sort(&values, &self.means.root) {
            ValueKind::Boolean { yes } => self.boolean(number, yes),
            ValueKind::Time { first, last } => format!("{{time:{first}0101:{}0101}}", last + 1),
            ValueKind::Password { scheme } => self.password(scheme, &values),
            ValueKind::Dn(paths) => self.dn(&paths),
            ValueKind::Text => self.shaped(number),
        }
    }

    fn shaped(&mut self, number: usize) -> String {
        let found = shapes(&self.columns, number, &self.earlier);
        let stem = self.stem(number);
        let subject = self.subject(number, &stem);
        let made = text(&found, &subject, self.means.registry);
        let attribute = self.attribute(number);
        if subject.single && attribute.entries * 1000 >= self.kind.entries * 999 {
            self.offer(number);
        }
        made
    }

    fn boolean(&mut self, number: usize, yes: usize) -> String {
        let texts = vec![
            ("TRUE".to_owned(), yes.max(1) as u64),
            ("FALSE".to_owned(), (1000 - yes).max(1) as u64),
        ];
        let choice = Choice { texts, phrases: None };
        let stem = self.stem(number);
        format!("{{shape:{}}}", self.means.registry.add_shapes(&stem, choice))
    }

    /// A hash of the scheme's length. Where it can be made, it is that of the entry's own name.
    fn password(&self, name: &str, values: &[&str]) -> String {
        let lengths = hash_lengths(values);
        let of_name = self.earlier.first().filter(|_| name == "SSHA" && lengths.only().is_some());
        if let Some(&number) = of_name {
            return format!("{{ssha:{}}}", self.names[number]);
        }
        debug_assert!(scheme(&format!("{{{name}}}")).is_some());
        format!("{{{{{name}}}}}{{chars:base64:histogram:{}}}", histogram(&lengths))
    }

    /// Of an entry of the kind that most values name.
    fn dn(&self, paths: &[(String, usize)]) -> String {
        let kinds = self.means.kinds;
        let found =
            paths.iter().find_map(|(path, _)| kinds.iter().find(|(known, _)| known == path));
        match found.or(kinds.first()) {
            Some((_, kind)) => format!("{{dn:{kind}}}"),
            None => "{suffix}".to_owned(),
        }
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "lengths")]
    pub(super) fn binary(&self, number: usize) -> String {
        let lengths = &self.attribute(number).lengths;
        let (least, mean) = (lengths.least(), lengths.mean().round() as u64);
        let is_certificate = is_certificate(&self.columns.names[number]);
        let tag = if is_certificate { "certificate" } else { "bytes" };
        let least = least.max(1);
        format!("{{{tag}:{least}:{}}}", (2 * mean).saturating_sub(least).max(least))
    }
}

//! What entries of a kind are, and when they came into being.

use super::{Created, Describing, Item, Line};
use crate::schemes::structural;
use crate::value::{ValueKind, sort};

impl Describing<'_, '_> {
    pub(super) fn classes(&self) -> Line {
        let number = self.columns.names.iter().position(|name| name == "objectclass");
        let row = number.and_then(|number| self.columns.rows.first().map(|row| &row[number]));
        let item = |text: &String| Item { text: text.clone(), chance: 1.0, count: String::new() };
        let fits = |text: &&String| {
            text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'))
        };
        let texts = row.into_iter().flatten().filter(fits).map(item).collect();
        Line { name: "objectClass".to_owned(), texts, note: String::new() }
    }

    /// What the entries say themselves, else what is known of their classes.
    pub(super) fn structural(&self) -> Option<String> {
        let said = self.columns.names.iter().position(|name| name == "structuralobjectclass");
        let classes = self.classes();
        let classes: Vec<&str> = classes.texts.iter().map(|item| item.text.as_str()).collect();
        let said = said.and_then(|number| self.columns.values(number).next());
        let said = said.filter(|said| classes.iter().any(|class| class.eq_ignore_ascii_case(said)));
        said.or_else(|| structural(&classes)).map(str::to_owned)
    }

    /// What createTimestamp says: of one load, hundreds of entries have the same.
    pub(super) fn created(&self) -> Option<Created> {
        const OF_ONE_LOAD: u64 = 10;
        let number = self.columns.names.iter().position(|name| name == "createtimestamp")?;
        let values: Vec<&str> = self.columns.values(number).collect();
        let ValueKind::Time { first, last } = sort(&values, &self.means.root) else { return None };
        let times = &self.attribute(number).distinct;
        let at_once = times.estimate() * OF_ONE_LOAD < self.kind.entries;
        Some(Created { first, last, at_once })
    }
}

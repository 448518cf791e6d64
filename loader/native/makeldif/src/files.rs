//! Lists of values: the files that tags name, and lists that stand in tags.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use synth::list::{self, List};

/// What makeldif ships under these names is here under others.
const SHIPPED: [(&str, &str); 5] = [
    ("first.names", "first-names.txt"),
    ("last.names", "last-names.txt"),
    ("cities", "places.txt"),
    ("states", "states.txt"),
    ("streets", "streets.txt"),
];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

pub struct Lists {
    /// Beside the template, then where ours are.
    directories: Vec<PathBuf>,
    pub found: Vec<Arc<List>>,
}

impl Lists {
    pub fn new(template: &Path, directories: &[PathBuf]) -> Self {
        let beside = template.parent().map(Path::to_path_buf).into_iter();
        Self { directories: beside.chain(directories.iter().cloned()).collect(), found: Vec::new() }
    }

    /// The list of a file, and whether it is one of ours; what is wrong with it otherwise.
    pub fn file(&mut self, name: &str) -> Result<(String, bool), String> {
        let ours = SHIPPED.iter().find(|(theirs, _)| *theirs == name).map(|(_, ours)| *ours);
        let own = list::find(name, &self.directories);
        let is_ours = own.is_none();
        let path = own.or_else(|| list::find(ours?, &self.directories));
        let path = path.ok_or_else(|| {
            let beside = self
                .directories
                .first()
                .map_or_else(String::new, |path| path.display().to_string());
            format!("there is no file {name} in {beside}, nor one of that name among ours")
        })?;
        if !self.has(name) {
            let list = if is_ours { List::read(name, &path) } else { plain(name, &path) };
            self.found.push(Arc::new(list.map_err(|problem| problem.to_string())?));
        }
        Ok((name.to_owned(), is_ours))
    }

    /// A list of values with weights; those of weight 0 are never taken.
    pub fn weighted(&mut self, values: &[(String, u32)]) -> String {
        let kept: Vec<(&str, f64)> = values
            .iter()
            .filter(|(_, weight)| *weight > 0)
            .map(|(value, weight)| (value.as_str(), f64::from(*weight)))
            .collect();
        let is_even = values.iter().all(|(_, weight)| *weight == values[0].1);
        let texts: Vec<&str> = kept.iter().map(|(value, _)| *value).collect();
        let name = format!("List:{}", self.found.len());
        let list = if is_even { List::of(&name, &texts) } else { List::weighted(&name, &kept) };
        self.add(name, list)
    }

    /// The names of the months, not longer than that.
    pub fn months(&mut self, longest: usize) -> String {
        let name = format!("Random:month:{longest}");
        let texts: Vec<&str> =
            MONTHS.iter().map(|month| month.get(..longest).unwrap_or(month)).collect();
        let list = List::of(&name, &texts);
        self.add(name, list)
    }

    fn add(&mut self, name: String, list: Option<List>) -> String {
        if let Some(list) = list.filter(|_| !self.has(&name)) {
            self.found.push(Arc::new(list));
        }
        name
    }

    fn has(&self, name: &str) -> bool {
        self.found.iter().any(|list| list.name == name)
    }
}

/// Every line as it is: tabs mean nothing, and an empty line is a value.
fn plain(name: &str, path: &Path) -> Result<List, synth::Problem> {
    let text = list::text(path)?;
    let lines: Vec<&str> = text.lines().collect();
    let empty = || synth::Problem::new(path, synth::Location::default(), "it is empty");
    List::of(name, &lines).ok_or_else(empty)
}

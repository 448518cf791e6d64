//! What was found of a kind, ready to be written.

/// What a template says of a kind, but for where it stands.
#[derive(Debug, Default)]
pub struct Described {
    pub rdn: Vec<String>,
    pub structural: Option<String>,
    /// When its entries came into being.
    pub created: Option<Created>,
    /// Values that several attributes have in common.
    pub values: Vec<(String, String)>,
    pub attributes: Vec<Line>,
}

/// Years, and whether all came in one load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Created {
    pub first: u32,
    pub last: u32,
    pub at_once: bool,
}

#[derive(Debug)]
pub struct Line {
    pub name: String,
    /// Texts; the first one is of the name of the entry where there are two.
    pub texts: Vec<Item>,
    pub note: String,
}

#[derive(Debug, Clone, Default)]
pub struct Item {
    pub text: String,
    pub chance: f64,
    /// As [`histogram`] writes it; empty for one.
    pub count: String,
}

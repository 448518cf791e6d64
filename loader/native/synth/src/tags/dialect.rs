//! Tags that the crate of a dialect defines, and writes itself.

use std::fmt;
use std::sync::Arc;

use super::{Render, Scope};

/// A tag of a dialect. What `Debug` writes of it holds all that it says: by that, tags and templates are told apart.
pub trait Own: Send + Sync + fmt::Debug {
    /// What writes this tag at the place that `scope` describes; what is wrong with it otherwise.
    fn compile(&self, scope: &Scope<'_>) -> Result<Box<dyn Render>, String>;

    /// The values of the entry that it names.
    fn named(&self) -> &[String] {
        &[]
    }

    /// Whether it may stand in a name.
    fn may_name(&self) -> bool {
        true
    }

    /// Whether it writes consecutive numbers, from 0 or more on, without zeros before them.
    fn is_numbering(&self) -> bool {
        false
    }
}

#[derive(Clone)]
pub struct Dialect(Arc<dyn Own>);

impl Dialect {
    pub fn new(own: impl Own + 'static) -> Self {
        Self(Arc::new(own))
    }
}

impl std::ops::Deref for Dialect {
    type Target = dyn Own;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl fmt::Debug for Dialect {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

impl PartialEq for Dialect {
    fn eq(&self, other: &Self) -> bool {
        format!("{self:?}") == format!("{other:?}")
    }
}

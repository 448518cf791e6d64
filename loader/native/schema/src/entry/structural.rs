//! The structural class of an entry.

use crate::schema::refusal;
use crate::{ClassId, ClassKind, InvalidValue, Result, Schema};

impl Schema {
    /// The most specific of the structural classes, which must lie on one chain. Two classes that
    /// are not on one chain are let through when a later class of the list is below both.
    pub(super) fn structural_class(&self, classes: &[ClassId]) -> Result<ClassId> {
        let structural = |id: ClassId| self.object_class(id).kind == ClassKind::Structural;
        let below = |sub: ClassId, sup: ClassId| self.object_class(sub).is_a(sup);
        let mut found: Option<ClassId> = None;
        for (at, &class) in classes.iter().enumerate().filter(|(_, class)| structural(**class)) {
            let Some(best) = found.filter(|&best| !below(class, best)) else {
                found = Some(class);
                continue;
            };
            let joins =
                |&&later: &&ClassId| structural(later) && below(later, best) && below(later, class);
            if !below(best, class) && !classes[at + 1..].iter().any(|later| joins(&later)) {
                let (one, other) = (&self.object_class(best).name, &self.object_class(class).name);
                return Err(refusal(format!(
                    "structural object classes '{one}' and '{other}' are not on one chain"
                )));
            }
        }
        found.ok_or_else(|| InvalidValue("no structural object class".into()))
    }
}

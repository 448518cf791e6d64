//! How many entries each kind has.

use super::{Context, ENTRIES, Options};
use crate::model::{Count, Kind, Parent};
use crate::problem::Problem;

/// In the order of the kinds.
pub fn of(context: &Context<'_>, options: &Options) -> Result<Vec<u64>, Problem> {
    let kinds = &context.template.kinds;
    let open: Vec<&Kind> = kinds.iter().filter(|kind| kind.count == Count::Asked).collect();
    if let [_, second, ..] = open[..] {
        let reason = format!("kind {:?} has no count, like another one before it", second.name);
        return Err(context.wrong(second.spot, reason));
    }
    let asked = match (open.first(), options.entries) {
        (Some(_), None) if options.otherwise.is_some() => options.otherwise,
        (Some(kind), None) => {
            let reason = format!("say how many entries of kind {:?}: -n N", kind.name);
            return Err(Problem::asked(&context.template.path, reason));
        }
        (None, Some(_)) if !kinds.iter().any(|kind| matches!(kind.count, Count::Share { .. })) => {
            let reason = "its kinds have counts of their own, so that -n has no meaning";
            return Err(Problem::asked(&context.template.path, reason));
        }
        (None, _) => None,
        (_, asked) => asked,
    };
    let mut found = Vec::new();
    for kind in kinds {
        let count = count(context, kind, asked, &found)?;
        found.push(count);
    }
    let total = found.iter().try_fold(0_u64, |sum, count| sum.checked_add(*count));
    if total.is_none_or(|total| total > ENTRIES) {
        return Err(Problem::asked(&context.template.path, format!("more than {ENTRIES} entries")));
    }
    Ok(found)
}

fn count(
    context: &Context<'_>,
    kind: &Kind,
    asked: Option<u64>,
    before: &[u64],
) -> Result<u64, Problem> {
    let wrong = |reason: String| context.wrong(kind.spot, reason);
    let too_many = || wrong(format!("kind {:?}: more than {ENTRIES} entries", kind.name));
    let found = match (kind.count, asked) {
        (Count::Fixed(count), _) => count,
        (Count::Asked, asked) => asked.unwrap_or(0),
        (Count::Share { ones, of }, Some(asked)) if of > 0 => {
            let wide = (u128::from(asked) * u128::from(ones)).div_ceil(u128::from(of));
            u64::try_from(wide).map_err(|_| too_many())?
        }
        (Count::Share { .. }, _) => {
            let reason = "a share needs a kind without a count, which it is a share of";
            return Err(wrong(format!("kind {:?}: {reason}", kind.name)));
        }
        (Count::Each(each), _) => {
            let above = match &kind.parent {
                Parent::Kind { name, .. } => {
                    let place = context.template.kinds.iter().position(|one| one.name == *name);
                    place.and_then(|place| before.get(place)).copied().unwrap_or(0)
                }
                Parent::Branch(_) | Parent::Itself { .. } => 1,
            };
            each.checked_mul(above).ok_or_else(too_many)?
        }
    };
    if found > ENTRIES { Err(too_many()) } else { Ok(found) }
}

//! What a stream of LDIF records says about a directory tree: which entries, under which parents,
//! how new, and whether two trees hold the same. Knows DNs and CSNs as text, but no schema.

pub mod arrange;
pub mod claim;
pub mod csn;
pub mod description;
pub mod diff;
pub mod digest;
pub mod editor;
pub mod fingerprint;
pub mod join;
pub mod name;
pub mod names;
pub mod parents_first;
pub mod row;
pub mod scan;
pub mod shard;
pub mod subtrees;

pub use arrange::{Arrangement, Task, arrange};
pub use description::Description;
pub use diff::{Change, Difference};
pub use digest::Digest;
pub use join::join;
pub use names::Names;
pub use parents_first::parents_first;
pub use row::EntryRecord;
pub use scan::{Scan, scan};
pub use shard::{Shard, shard};
pub use subtrees::Subtree;

//! The directory tree in a stream of LDIF records: its entries, their parents and ages, and whether two trees are
//! equal. DNs and CSNs are handled as text, without a schema.

pub mod arrange;
pub mod claim;
pub mod csn;
pub mod description;
pub mod digest;
pub mod editor;
pub mod fingerprint;
pub mod join;
pub mod name;
pub mod names;
pub mod row;
pub mod scan;

pub use arrange::{Arrangement, Orphan, Task, arrange};
pub use description::Description;
pub use digest::{Change, Difference, Digest, Subtree};
pub use join::{Shard, join, parents_first, shard};
pub use names::Names;
pub use row::EntryRecord;
pub use scan::{Scan, scan};

//! Writes LMDB files bottom-up in one pass, and checks every offset when it reads them.
//!
//! This crate does not interpret tables. Keys and values must be added in order. Full pages are written in sequence,
//! children before their parents, and never read back.
//!
//! ```
//! use lmdbfile::{FileWriter, Flags, Format, Options, TreeWriter};
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("data.mdb");
//! let options = Options { format: Format::V1, page_size: 4096, map_size: 1 << 30 };
//! let mut file = FileWriter::create(&path, &options)?;
//! let mut index = TreeWriter::new(Flags::DUPFIXED | Flags::INTEGERDUP, file.layout());
//! index.begin(b"a key")?;
//! index.fixed(&mut file, &[1, 5, 9])?;
//! index.end(&mut file)?;
//! let index = index.finish(&mut file)?;
//! let summary = file.finish(vec![(b"index".to_vec(), index)])?;
//! assert_eq!(summary.pages, 4);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bulk;
mod compact;
pub mod copy;
mod error;
mod file;
mod flags;
mod layout;
mod meta;
mod next;
mod reader;
mod source;
mod writer;

pub use compact::ProgressCallback;
pub use error::{Error, ErrorKind, Result};
pub use file::{FileWriter, Options, Summary};
pub use flags::{Flags, Order};
pub use layout::{Format, Layout};
pub use meta::{Head, Meta, Table};
pub use next::NextSnapshot;
pub use reader::{Cursor, KeyValues, Keys, PageKind, PageUsage, PageUse, Peekable, Reader, Seen, TableReader};
pub use writer::{PendingValue, TreeWriter};

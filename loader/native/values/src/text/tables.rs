//! slapd's tables of Unicode 3.2: consecutive arrays of little-endian numbers in the file that
//! `make_tables.py` writes.

const FILE: &[u8] = include_bytes!("tables.bin");

/// Returns `N` bytes of the file from `from` on.
const fn part<const N: usize>(from: usize) -> [u8; N] {
    let mut bytes = [0; N];
    let mut i = 0;
    while i < N {
        bytes[i] = FILE[from + i];
        i += 1;
    }
    bytes
}

/// Declares the arrays of the file from the offset `$at` on. The last one ends with the file.
macro_rules! arrays {
    ($at:expr;) => { const _: () = assert!($at == FILE.len()); };
    ($at:expr; $(#[$doc:meta])* $name:ident: [$kind:ident; $length:literal], $($others:tt)*) => {
        $(#[$doc])*
        pub(super) static $name: [$kind; $length] = {
            let mut values = [0; $length];
            let mut i = 0;
            while i < $length {
                values[i] = $kind::from_le_bytes(part($at + i * size_of::<$kind>()));
                i += 1;
            }
            values
        };
        arrays!($at + $length * size_of::<$kind>(); $($others)*);
    };
}

arrays! { 0;
    /// Block of 64 code points -> block of `FOLDS`.
    FOLD_INDEX: [u8; 1881],
    /// Index in `FOLD_DELTAS`.
    FOLDS: [u8; 1664],
    /// Lower-case letter minus letter.
    FOLD_DELTAS: [i32; 43],
    /// Block of 64 code points -> block of `CLASSES`.
    CLASS_INDEX: [u8; 1881],
    /// Canonical combining class.
    CLASSES: [u8; 2176],
    /// Block of 64 code points -> block of `PARTS`.
    PARTS_INDEX: [u8; 1881],
    /// Index in `POOL`, 0 for none.
    PARTS: [u16; 7936],
    /// Full compatibility decompositions, each preceded by its length.
    POOL: [u32; 8469],
    /// First character, second character and their composite, 16 bits each; sorted.
    COMPOSITES: [u64; 921],
}

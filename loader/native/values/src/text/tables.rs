//! slapd's tables of Unicode 3.2, from the file that `make_tables.py` writes: consecutive arrays of little-endian
//! numbers.

const FILE: &[u8] = include_bytes!("tables.bin");

/// Returns `N` bytes of the file, from `from` on.
const fn part<const N: usize>(from: usize) -> [u8; N] {
    let mut bytes = [0; N];
    let mut i = 0;
    while i < N {
        bytes[i] = FILE[from + i];
        i += 1;
    }
    bytes
}

/// Declares the arrays of the file from the offset `$at` on. The last array must end with the file.
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
    /// Maps each block of 64 code points to a block of `FOLDS`.
    FOLD_INDEX: [u8; 1881],
    /// Index in `FOLD_DELTAS`.
    FOLDS: [u8; 1664],
    /// Lower-case letter minus letter.
    FOLD_DELTAS: [i32; 43],
    /// Maps each block of 64 code points to a block of `CLASSES`.
    CLASS_INDEX: [u8; 1881],
    /// Canonical combining class.
    CLASSES: [u8; 2176],
    /// Maps each block of 64 code points to a block of `PARTS`.
    PARTS_INDEX: [u8; 1881],
    /// Index in `POOL`; 0 for a character without a decomposition.
    PARTS: [u16; 7936],
    /// Full compatibility decompositions, each preceded by its length.
    POOL: [u32; 8469],
    /// The first character, the second character and their composite, 16 bits each, in ascending order.
    COMPOSITES: [u64; 921],
}

//! What a directory looks like in numbers, and a template that makes one like it.
mod columns;
mod curve;
mod gather;
mod histogram;
mod kind;
mod letters;
mod place;
mod read;
mod sampled;
mod shapes;
mod token;
mod tree_shape;
mod vocabulary;

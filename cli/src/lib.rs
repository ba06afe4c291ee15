//! What the `quipu` command is made of.

pub mod timeline;

//! Kernels written with `#[kernel]`: each runs natively, and its source is valid.

#![allow(
    clippy::style,
    clippy::complexity,
    clippy::identity_op,
    clippy::erasing_op,
    clippy::unwrap_used,
    reason = "what the language accepts is tested in all its forms; an unwrap is an assertion"
)]

mod corpus;

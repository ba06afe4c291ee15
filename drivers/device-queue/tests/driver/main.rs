//! The common part of the drivers over vendors' libraries, over a library that exists only here.
//! One program, as all of these are made of the same generic code.
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

mod batches;
mod conformance;
mod division;
mod failures;
mod graphs;
mod library;
mod native;
mod pressure;
mod random_batches;
mod random_faults;

//! `opgate replay`.

mod decisions;
mod review_input;

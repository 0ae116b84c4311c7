//! `opgate replay`.

mod decisions;
mod golden;
mod review_input;

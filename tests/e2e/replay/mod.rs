//! `opgate replay`.

mod against;
mod decisions;
mod golden;
mod review_input;

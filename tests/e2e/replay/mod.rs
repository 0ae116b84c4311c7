//! `opgate replay`.

mod review_input;

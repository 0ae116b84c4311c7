//! Recordings: reviews with their decisions, and with all that a decision depended on.
//!
//! ```text
//! server ─▶ Recorder: sample, queue ─▶ thread: format, redact ─▶ output: files, or stdout
//!                                                                   │
//! opgate replay ◀─ RecordedLine ◀─ decompress ◀─────────────────────┘
//! ```
//!
//! A recording is a text of JSON lines: a [`RecordingHeader`], then one [`RecordedReview`] a line, until the next
//! header. Files are compressed with zstd. The format is stable: a later opgate reads it.

mod decompress;
mod format;
mod output;
mod recorder;
mod redact;
mod sample;

pub use decompress::{DecompressError, Decompressed, MAGIC, TextEnd, decompress};
pub use format::{RecordedAnswer, RecordedLine, RecordedPolicy, RecordedReview, RecordingHeader};
pub use output::Destination;
pub use recorder::{Counts, Recorder, RecorderOptions, StartError};
pub use redact::{Redaction, RedactionError};
pub use sample::{SampleRate, SampleRates};

//! Replies to requests that succeeded.

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::mpsc::UnboundedReceiver;

use super::read_request::ReadRequest;

pub(super) enum Reply {
    Json(u16, Value),
    Text(u16, &'static str),
    Prepared(Bytes),
    Watch {
        lines: UnboundedReceiver<Bytes>,
        seconds: u64,
        cuts: u64,
        last: Option<Box<ReadRequest>>,
    },
}

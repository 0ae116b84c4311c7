//! The `traceparent` header of W3C Trace Context: the trace of the client that a request belongs to.

use opentelemetry::trace::{SpanId, TraceId};

/// Bytes of a header of version 00.
const HEADER_BYTES: usize = 55;

/// The flag of a trace that is sampled.
const SAMPLED: u8 = 1;

/// The span of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TraceContext {
    pub(crate) trace_id: TraceId,
    pub(crate) span_id: SpanId,
    pub(crate) is_sampled: bool,
}

impl TraceContext {
    /// Reads the value of a header; none if it is invalid. A later version can have more after these fields.
    pub(crate) fn parse(header: &[u8]) -> Option<Self> {
        let head = std::str::from_utf8(header.get(..HEADER_BYTES)?).ok()?;
        let mut fields = head.split('-');
        let version = hex::<u8>(fields.next()?, 2)?;
        let trace_id = TraceId::from(hex::<u128>(fields.next()?, 32)?);
        let span_id = SpanId::from(hex::<u64>(fields.next()?, 16)?);
        let flags = hex::<u8>(fields.next()?, 2)?;
        let is_longer = header.len() > HEADER_BYTES;
        let ends = !is_longer || (version > 0 && header.get(HEADER_BYTES) == Some(&b'-'));
        let is_valid = version != u8::MAX
            && ends
            && trace_id != TraceId::INVALID
            && span_id != SpanId::INVALID;
        is_valid.then_some(Self { trace_id, span_id, is_sampled: flags & SAMPLED != 0 })
    }
}

/// A number in lower-case hexadecimal digits.
fn hex<N: TryFrom<u128>>(text: &str, digits: usize) -> Option<N> {
    let is_hex = |b: u8| b.is_ascii_digit() || matches!(b, b'a'..=b'f');
    if text.len() != digits || !text.bytes().all(is_hex) {
        return None;
    }
    N::try_from(u128::from_str_radix(text, 16).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_valid_headers_have_a_context() {
        let id = "0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331";
        for (header, sampled) in [
            (format!("00-{id}-01"), Some(true)),
            (format!("00-{id}-00"), Some(false)),
            (format!("00-{id}-03"), Some(true)),
            (format!("cc-{id}-01"), Some(true)),
            (format!("cc-{id}-01-more"), Some(true)),
            (format!("00-{id}-01-more"), None),
            (format!("cc-{id}-01more"), None),
            (format!("ff-{id}-01"), None),
            (format!("00-{}-01", id.to_uppercase()), None),
            (format!("00-{}-01", id.replace('0', "+")), None),
            (format!("00-{}-b7ad6b7169203331-01", "0".repeat(32)), None),
            (format!("00-0af7651916cd43dd8448eb211c80319c-{}-01", "0".repeat(16)), None),
            (format!("00-{id}"), None),
            (format!("00_{id}_01"), None),
            (String::new(), None),
            ("é".repeat(40), None),
        ] {
            let context = TraceContext::parse(header.as_bytes());
            assert_eq!(context.map(|context| context.is_sampled), sampled, "{header}");
        }
        let context = TraceContext::parse(format!("00-{id}-01").as_bytes()).unwrap();
        let ids = format!("{}-{}", context.trace_id, context.span_id);
        assert_eq!(ids, id);
    }
}

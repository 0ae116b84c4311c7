//! The tree over a text: the position of each value, and its content once it was read.

use std::ops::Range;
use std::sync::OnceLock;

use crate::Text;
use crate::charged_vec::ChargedVec;
use crate::escapes::unescape_metered;
use crate::meter::Cost;
use crate::scan::skip_spaces;
use crate::sort;

/// A value: its position in the text and, after the first read, its cached content. 24 bytes, because a list
/// of a million numbers has a million of them.
#[derive(Default)]
pub(crate) struct Node {
    span: Span,
    cached: OnceLock<Box<CachedContent>>,
}

/// Start and end of a range in a text: two offsets of 32 bits in one number, written and read at once. Two
/// adjacent numbers took a third of the time of a read, because a value written in two parts and read as one
/// waits for memory.
#[derive(Clone, Copy, Default)]
struct Span(u64);

impl Span {
    fn new(start: u32, end: u32) -> Self {
        Self(u64::from(start) << 32 | u64::from(end))
    }

    /// Offsets beyond 4 GiB do not occur (the largest body is far below); they read as nothing.
    fn of(start: usize, end: usize) -> Self {
        match (u32::try_from(start), u32::try_from(end)) {
            (Ok(start), Ok(end)) => Self::new(start, end),
            _ => Self::default(),
        }
    }

    fn start(self) -> u32 {
        u32::try_from(self.0 >> 32).unwrap_or_default()
    }

    fn end(self) -> u32 {
        u32::try_from(self.0 & u64::from(u32::MAX)).unwrap_or_default()
    }

    fn range(self) -> Range<usize> {
        let number = |offset: u32| usize::try_from(offset).unwrap_or(usize::MAX);
        number(self.start())..number(self.end())
    }

    fn of_text(self, text: &str) -> &str {
        text.get(self.range()).unwrap_or_default()
    }
}

/// Content that is derived from a text and cached.
enum CachedContent {
    /// The text without its escapes.
    Text(Box<str>),
    List(Box<[Node]>),
    /// Sorted by name, each name once.
    Object(Box<[Member]>),
}

/// Bytes of a list or a text in addition to its content: the box that holds it and the overhead of the
/// allocator for two allocations.
const ALLOCATION_OVERHEAD_BYTES: usize = size_of::<CachedContent>() + 16;

/// Content of a value.
#[derive(Clone, Copy)]
pub(crate) enum Content<'n> {
    Null,
    Boolean(bool),
    Number,
    Text(&'n str),
    List(&'n [Node]),
    Object(&'n [Member]),
}

#[derive(Default)]
pub(crate) struct Member {
    name: Name,
    pub(crate) value: Node,
}

enum Name {
    /// Place in the text, without the quotes.
    Plain(Span),
    Unescaped(Box<str>),
}

impl Default for Name {
    fn default() -> Self {
        Self::Plain(Span::default())
    }
}

/// Up to this many members, comparing lengths first and texts then is faster than halving.
const MAX_LINEAR_SEARCH: usize = 16;

/// Returns the position of the member of a name.
pub(crate) fn position(members: &[Member], text: &str, name: &str) -> Option<usize> {
    if members.len() <= MAX_LINEAR_SEARCH {
        return members.iter().position(|member| member.is_named(text, name));
    }
    members.binary_search_by(|member| member.name(text).cmp(name)).ok()
}

impl Member {
    fn is_named(&self, text: &str, name: &str) -> bool {
        match &self.name {
            Name::Plain(span) => {
                // In a text that is no JSON a name may be half a pair of quotes, and end before it starts.
                let place = span.range();
                let length = place.end.checked_sub(place.start);
                length == Some(name.len()) && text.as_bytes().get(place) == Some(name.as_bytes())
            }
            Name::Unescaped(unescaped) => **unescaped == *name,
        }
    }

    pub(crate) fn name<'t>(&'t self, text: &'t str) -> &'t str {
        match &self.name {
            Name::Plain(span) => span.of_text(text),
            Name::Unescaped(name) => name,
        }
    }
}

impl Node {
    /// Creates a node for a range of the text, without surrounding white space.
    pub(crate) fn trimmed(text: &str, range: Range<usize>) -> Self {
        let part = text.get(range.clone()).unwrap_or_default();
        let leading = part.len() - part.trim_ascii_start().len();
        let start = range.start.saturating_add(leading);
        Self::at(start, start.saturating_add(part.trim_ascii().len()))
    }

    fn at(start: usize, end: usize) -> Self {
        Self { span: Span::of(start, end), cached: OnceLock::new() }
    }

    pub(crate) fn text<'t>(&self, text: &'t str) -> &'t str {
        self.span.of_text(text)
    }

    /// Returns the same position without cached content.
    pub(crate) fn without_cache(&self) -> Self {
        Self { span: self.span, cached: OnceLock::new() }
    }

    /// Returns its start.
    pub(crate) fn start(&self) -> u32 {
        self.span.start()
    }

    /// Returns its range.
    pub(crate) fn range(&self) -> Range<usize> {
        self.span.range()
    }

    /// Returns the content. Derived data is charged; if the charge is refused, it is not cached and reads as
    /// null.
    #[inline]
    pub(crate) fn content<'n>(&'n self, text: &'n Text, cost: Cost<'_>) -> Content<'n> {
        // The path to a value uses the cached content of earlier reads.
        match self.cached.get() {
            Some(made) => made.content(),
            None => self.first_content(text, cost),
        }
    }

    /// Returns the content at the first read, and at every read for values that need no derived data.
    fn first_content<'n>(&'n self, text: &'n Text, cost: Cost<'_>) -> Content<'n> {
        let json = self.text(text);
        let plain = json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        match (json.as_bytes().first(), plain) {
            (_, Some(plain)) if memchr::memchr(b'\\', plain.as_bytes()).is_none() => {
                Content::Text(plain)
            }
            (Some(b'{' | b'[' | b'"'), _) => {
                self.cached_content(text, cost).map_or(Content::Null, CachedContent::content)
            }
            (Some(b't'), _) => Content::Boolean(true),
            (Some(b'f'), _) => Content::Boolean(false),
            (Some(b'-' | b'0'..=b'9'), _) => Content::Number,
            _ => Content::Null,
        }
    }

    fn cached_content(&self, text: &Text, cost: Cost<'_>) -> Option<&CachedContent> {
        let (made, bytes) = self.derive_content(text, cost)?;
        // Two threads may read it first at the same time; the result of the slower one is dropped.
        let mut made = Some(Box::new(made));
        let kept = self.cached.get_or_init(|| made.take().unwrap_or_default());
        if made.is_some() {
            cost.charge.shrink(bytes);
        }
        Some(kept)
    }

    /// Derives the content of the value; returns the charged bytes, too.
    fn derive_content(&self, text: &Text, cost: Cost<'_>) -> Option<(CachedContent, usize)> {
        let json = self.text(text);
        match json.as_bytes().first() {
            Some(b'{') => members(text, self.start(), cost)
                .map(|(list, bytes)| (CachedContent::Object(list), bytes)),
            Some(b'[') => items(text, self.start(), cost)
                .map(|(list, bytes)| (CachedContent::List(list), bytes)),
            _ => derive_text(json, cost).map(|(text, bytes)| (CachedContent::Text(text), bytes)),
        }
    }
}

impl CachedContent {
    fn content(&self) -> Content<'_> {
        match self {
            Self::Text(unescaped) => Content::Text(unescaped),
            Self::List(items) => Content::List(items),
            Self::Object(members) => Content::Object(members),
        }
    }
}

impl Default for CachedContent {
    fn default() -> Self {
        Self::Text(Box::default())
    }
}

/// Bytes of a number that are read at a time.
const NUMBER_CHUNK_BYTES: usize = 4 << 10;

/// The account of the reader refuses more bytes.
struct BudgetExceeded;

/// Units of work for one value, in addition to the bytes that are skipped.
const VALUE_COST: usize = 8;

/// Steps through the elements or members of one level; nested values are stepped over.
struct LevelCursor<'t> {
    text: &'t Text,
    bytes: &'t [u8],
    at: usize,
    /// Position of the next bracket in the index.
    bracket: Option<usize>,
    cost: Cost<'t>,
}

impl<'t> LevelCursor<'t> {
    /// Creates a level inside the bracket at `start`.
    fn inside(text: &'t Text, start: u32, cost: Cost<'t>) -> Self {
        let start = usize::try_from(start).unwrap_or(usize::MAX);
        let at = start.saturating_add(1);
        Self { text, bytes: text.as_bytes(), at, bracket: None, cost }
    }

    /// [`LevelCursor::inside`] for a reader that derives no data.
    fn unmetered(text: &'t Text, start: usize) -> Self {
        let cost = Cost { charge: text.charge(), meter: None };
        Self::inside(text, u32::try_from(start).unwrap_or(u32::MAX), cost)
    }

    /// Returns the range of the next value, without metering.
    fn step(&mut self) -> Option<Range<usize>> {
        self.value().ok()?
    }

    /// Returns the next byte that is neither white space, comma nor colon.
    fn peek(&mut self) -> Option<u8> {
        loop {
            self.at = skip_spaces(self.bytes, self.at);
            match self.bytes.get(self.at) {
                Some(b',' | b':') => self.at += 1,
                other => return other.copied(),
            }
        }
    }

    /// Steps over the value that comes next; its range, or `None` at the end of the level.
    fn value(&mut self) -> Result<Option<Range<usize>>, BudgetExceeded> {
        let before = self.at;
        let Some(first) = self.peek() else { return Ok(None) };
        let start = self.at;
        let mut read = start.saturating_sub(before);
        self.at = match first {
            b'}' | b']' => return Ok(None),
            b'{' | b'[' => {
                let closing = self.text.closing_bracket(start, &mut self.bracket);
                let Some(closing) = closing else { return Ok(None) };
                closing.saturating_add(1)
            }
            b'"' => {
                let end = self.text.string_end(start);
                read = read.saturating_add(end.saturating_sub(start) / 8);
                end
            }
            _ => {
                let mut end = start;
                // Few are longer than a word of the processor.
                while let Some(byte) = self.bytes.get(end)
                    && !matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r')
                {
                    end += 1;
                    if (end - start).is_multiple_of(NUMBER_CHUNK_BYTES) {
                        self.cost.spend(NUMBER_CHUNK_BYTES).ok_or(BudgetExceeded)?;
                    }
                }
                read = read.saturating_add(end.saturating_sub(start) % NUMBER_CHUNK_BYTES);
                end
            }
        };
        self.cost.spend(VALUE_COST.saturating_add(read)).ok_or(BudgetExceeded)?;
        Ok(Some(start..self.at))
    }
}

impl Text {
    /// Iterates over the ranges of the names (with their quotes) and the values of the object whose bracket
    /// is at `start`, in the order of the text. For a text that [is JSON](Text::is_json).
    pub fn members(&self, start: usize) -> impl Iterator<Item = (Range<usize>, Range<usize>)> {
        let mut level = LevelCursor::unmetered(self, start);
        std::iter::from_fn(move || level.step().zip(level.step()))
    }

    /// Iterates over the ranges of the elements of the list whose bracket is at `start`, see
    /// [`Text::members`].
    pub fn elements(&self, start: usize) -> impl Iterator<Item = Range<usize>> {
        let mut level = LevelCursor::unmetered(self, start);
        std::iter::from_fn(move || level.step())
    }
}

/// Derived data, and the charged bytes.
type ChargedBox<T> = Option<(Box<T>, usize)>;

fn items(text: &Text, start: u32, cost: Cost<'_>) -> ChargedBox<[Node]> {
    let mut level = LevelCursor::inside(text, start, cost);
    let mut nodes = ChargedVec::new(cost.charge);
    while let Some(range) = level.value().ok()? {
        nodes.push_with(|| Node::at(range.start, range.end))?;
    }
    let (nodes, bytes) = nodes.finish(ALLOCATION_OVERHEAD_BYTES)?;
    Some((nodes.into_boxed_slice(), bytes))
}

fn members(text: &Text, start: u32, cost: Cost<'_>) -> ChargedBox<[Member]> {
    let mut level = LevelCursor::inside(text, start, cost);
    let mut members = ChargedVec::new(cost.charge);
    while let Some(name) = level.value().ok()? {
        let Some(value) = level.value().ok()? else { break };
        let name = Name::of(text, name, cost)?;
        let extra = name.extra_bytes();
        members.push_with(|| Member { name, value: Node::at(value.start, value.end) })?;
        if extra > 0 {
            members.add_extra_bytes(extra)?;
        }
    }
    if !members.items.is_sorted_by(|a, b| a.name(text) < b.name(text)) {
        if members.items.len() <= MAX_LINEAR_SEARCH {
            // In place, without another list.
            members.items.sort_by(|a, b| a.name(text).cmp(b.name(text)));
            members.items.reverse();
            members.items.dedup_by(|a, b| a.name(text) == b.name(text));
            members.items.reverse();
        } else {
            sort::sort_and_dedup(&mut members, text, Member::name, cost)?;
        }
    }
    let (members, bytes) = members.finish(ALLOCATION_OVERHEAD_BYTES)?;
    Some((members.into_boxed_slice(), bytes))
}

/// Returns a text without its escapes.
fn derive_text(json: &str, cost: Cost<'_>) -> ChargedBox<str> {
    // The result is not longer than the quoted text.
    cost.charge.grow(json.len()).then_some(())?;
    let text = unescape_metered(json, cost);
    cost.charge.shrink(json.len());
    let text = text?;
    let bytes = text.len().saturating_add(ALLOCATION_OVERHEAD_BYTES);
    cost.charge.grow(bytes).then_some((text, bytes))
}

impl Name {
    /// Returns the name in a range of the text, quotes included.
    fn of(text: &str, range: Range<usize>, cost: Cost<'_>) -> Option<Self> {
        let quoted = text.get(range.clone()).unwrap_or_default();
        let inside = range.start.checked_add(1).zip(range.end.checked_sub(1));
        let is_plain = memchr::memchr(b'\\', quoted.as_bytes()).is_none();
        match inside.filter(|_| is_plain) {
            Some((start, end)) => Some(Self::Plain(Span::of(start, end))),
            None => unescape_metered(quoted, cost).map(Self::Unescaped),
        }
    }

    /// Returns bytes that it has elsewhere.
    fn extra_bytes(&self) -> usize {
        match self {
            Self::Plain(..) => 0,
            Self::Unescaped(name) => name.len().saturating_add(16),
        }
    }
}

/// Returns the value of a JSON number as an integer, if it is one and fits.
pub(crate) fn integer(json: &str) -> Option<i64> {
    if let Ok(value) = json.parse() {
        return Some(value);
    }
    let value: f64 = json.parse().ok()?;
    // Beyond 2^53 a double no longer distinguishes neighbours, so that `1e30` is not treated as an integer.
    let exact = value.fract() == 0.0 && value.abs() <= 9_007_199_254_740_992.0;
    if exact { format!("{value:.0}").parse().ok() } else { None }
}

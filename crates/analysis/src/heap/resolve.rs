//! Paths as a user writes them, back to objects: `__main__.model.layers[3].weight`, `train.cache['history'][3]`,
//! `Out[17]`, `train.py:step.batch`, `0x7f12…`. Whatever `path` prints is understood, except where it left something out.

use nilometer_trace::heap::{Graph, Label, NameId, Nature, ObjectId, Part};

use super::anchor::{Anchor, name_of};
use super::attribute::link_name;
use super::{Error, Heap, model, path};

/// Names offered when one is not found.
const OFFERED: usize = 8;

/// One step of a written path.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    /// `.name`
    Name(String),
    /// `['name']`
    Key(String),
    /// `[3]`
    Index(u32),
    /// `[#3]`: the n-th value whose key is not told.
    Position(u32),
    /// `{str}`: the first key or member of that kind.
    Member(String),
}

pub(super) fn find(heap: &Heap<'_>, text: &str) -> Result<ObjectId, Error> {
    let text = text.trim();
    let text = text.strip_prefix("thread locals:").map_or(text, str::trim_start);
    let (start, reached, rest) = begin(heap, text)?;
    let tokens = parse(rest).map_err(|why| Error::BadPath { text: text.into(), why })?;
    let mut walk = Walk { heap, text, reached, object: start };
    for token in &tokens {
        walk.step(token)?;
    }
    Ok(walk.object)
}

/// The object where a path begins, what it is called, and the rest of the text.
fn begin<'t>(heap: &Heap<'_>, text: &'t str) -> Result<(ObjectId, String, &'t str), Error> {
    if let Some(digits) = text.strip_prefix("0x") {
        return at_address(heap, text, digits);
    }
    let anchors = heap.anchors().rows().iter().filter_map(|row| Some((row, rest_after(row, text)?)));
    if let Some((anchor, rest)) = anchors.min_by_key(|found| found.1.len()) {
        return Ok((anchor.object, text[..text.len() - rest.len()].to_owned(), rest));
    }
    let main = heap.anchors().module("__main__");
    let missing = || Error::NoSuchName {
        path: text.into(),
        reached: "the process".into(),
        missing: format!("module or variable `{text}`"),
        near: near(text, heap.anchors().rows().iter().map(|row| row.name.as_str())),
    };
    Ok((main.ok_or_else(missing)?, "__main__".into(), text))
}

fn at_address<'t>(
    heap: &Heap<'_>,
    text: &'t str,
    digits: &'t str,
) -> Result<(ObjectId, String, &'t str), Error> {
    let end = digits.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(digits.len());
    let (number, rest) = digits.split_at(end);
    let address = u64::from_str_radix(number, 16).ok();
    let object = address.and_then(|address| heap.graph().at(address));
    let object = object.ok_or_else(|| Error::NoSuchAddress { address: format!("0x{number}") })?;
    Ok((object, text[..text.len() - rest.len()].to_owned(), rest))
}

/// What follows an anchor's name, or the short form of a local: `train.py:step.batch`.
fn rest_after<'t>(anchor: &Anchor, text: &'t str) -> Option<&'t str> {
    let mut names = vec![anchor.name.clone()];
    if anchor.what == model::Anchor::Frame {
        names.extend(short_local(&anchor.name));
    }
    let rests = names.iter().filter_map(|name| text.strip_prefix(name.as_str()));
    rests.filter(|rest| rest.is_empty() || rest.starts_with(['.', '[', '{'])).min_by_key(|rest| rest.len())
}

/// `train.py:33 step() batch` without its line: `train.py:step.batch`.
fn short_local(name: &str) -> Option<String> {
    let (place, local) = name.rsplit_once(' ')?;
    let (file_line, function) = place.rsplit_once(' ')?;
    let (file, _) = file_line.rsplit_once(':')?;
    Some(format!("{file}:{}.{local}", function.strip_suffix("()").unwrap_or(function)))
}

fn parse(mut text: &str) -> Result<Vec<Token>, &'static str> {
    let mut tokens = Vec::new();
    // A path that begins with a variable of `__main__` begins without a dot.
    if text.starts_with(|c: char| !matches!(c, '.' | '[' | '{')) {
        let (name, rest) = take_name(text);
        tokens.push(Token::Name(name.into()));
        text = rest;
    }
    while !text.is_empty() {
        let (token, rest) = match text.as_bytes()[0] {
            b'.' => {
                let (name, rest) = take_name(&text[1..]);
                (Token::Name(name.into()), rest)
            }
            b'[' => take_index(&text[1..])?,
            b'{' => {
                let (kind, rest) = text[1..].split_once('}').ok_or("a brace is not closed")?;
                (Token::Member(kind.into()), rest)
            }
            _ => return Err("a name, `.`, `[` or `{` was expected"),
        };
        if token == Token::Name(String::new()) {
            return Err("a name is missing");
        }
        tokens.push(token);
        text = rest;
    }
    Ok(tokens)
}

/// Up to the next step; what stands in `<…>` is one name.
fn take_name(text: &str) -> (&str, &str) {
    let end = match text.strip_prefix('<').and_then(|rest| rest.find('>')) {
        Some(close) => close + 2,
        None => text.find(['.', '[', '{']).unwrap_or(text.len()),
    };
    text.split_at(end)
}

fn take_index(text: &str) -> Result<(Token, &str), &'static str> {
    if let Some(quote) = text.chars().next().filter(|c| matches!(c, '\'' | '"')) {
        return take_key(&text[1..], quote);
    }
    let (inside, rest) = text.split_once(']').ok_or("a bracket is not closed")?;
    let (position, digits) = inside.strip_prefix('#').map_or((false, inside), |digits| (true, digits));
    let number = digits.trim().parse().map_err(|_| "in brackets stands a number or a name in quotes")?;
    Ok((if position { Token::Position(number) } else { Token::Index(number) }, rest))
}

fn take_key(text: &str, quote: char) -> Result<(Token, &str), &'static str> {
    let mut key = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => key.extend(chars.next().map(|next| next.1)),
            c if c == quote => {
                let rest = text[at + 1..].strip_prefix(']').ok_or("a bracket is not closed")?;
                return Ok((Token::Key(key), rest));
            }
            c => key.push(c),
        }
    }
    Err("a quote is not closed")
}

struct Walk<'w, 'g> {
    heap: &'w Heap<'g>,
    text: &'w str,
    /// The part of the path that exists.
    reached: String,
    object: ObjectId,
}

impl Walk<'_, '_> {
    fn step(&mut self, token: &Token) -> Result<(), Error> {
        let found = match token {
            Token::Name(name) => self.name(name),
            Token::Key(name) => self.key(name),
            Token::Index(place) => self.index(*place),
            Token::Position(place) => self.labelled(self.object, |part| *part == Part::Position(*place)),
            Token::Member(kind) => self.of_kind(kind, |part| *part == Part::Member),
        };
        let shown = show(token);
        self.object = found.ok_or_else(|| self.missing(token, &shown))?;
        self.reached.push_str(&shown);
        Ok(())
    }

    fn missing(&self, token: &Token, shown: &str) -> Error {
        let word = match token {
            Token::Name(name) | Token::Key(name) => name,
            _ => "",
        };
        let graph = self.heap.graph();
        let spaces = [Some(self.object), own_dict(self.heap, self.object)];
        let names = spaces.into_iter().flatten().flat_map(|object| names(graph, object));
        Error::NoSuchName {
            path: self.text.into(),
            reached: self.reached.clone(),
            missing: shown.into(),
            near: near(word, names),
        }
    }

    fn labelled(&self, object: ObjectId, wanted: impl Fn(&Part) -> bool) -> Option<ObjectId> {
        labelled(self.heap.graph(), object, wanted)
    }

    fn name(&self, name: &str) -> Option<ObjectId> {
        let plain = self.heap.attribute(self.object, name);
        plain.or_else(|| self.in_torch(|dict| self.key_of(dict, name))).or_else(|| self.link(name))
    }

    fn key(&self, name: &str) -> Option<ObjectId> {
        self.key_of(self.object, name).or_else(|| self.heap.attribute(self.object, name))
    }

    fn key_of(&self, dict: ObjectId, name: &str) -> Option<ObjectId> {
        let graph = self.heap.graph();
        self.labelled(
            dict,
            |part| matches!(part, Part::Key(it) | Part::Attribute(it) if is(graph, *it, name)),
        )
    }

    fn index(&self, place: u32) -> Option<ObjectId> {
        let plain = self.labelled(self.object, |part| *part == Part::Index(place));
        plain.or_else(|| {
            self.in_torch(|dict| {
                let position = self.labelled(dict, |part| *part == Part::Position(place));
                position.or_else(|| self.key_of(dict, &place.to_string()))
            })
        })
    }

    /// Looks into the dicts where a torch module keeps its attributes.
    fn in_torch(&self, look: impl Fn(ObjectId) -> Option<ObjectId>) -> Option<ObjectId> {
        if !path::is_torch_module(self.heap, self.object) {
            return None;
        }
        let mut dicts = path::TORCH_DICTS.iter().filter_map(|name| self.heap.attribute(self.object, name));
        dicts.find_map(look)
    }

    /// `__class__`, `base`, `storage`, or `<list>`: the first list that nobody names.
    fn link(&self, name: &str) -> Option<ObjectId> {
        let special = |part: &Part| matches!(part, Part::Special(special) if link_name(*special) == name);
        self.labelled(self.object, special).or_else(|| {
            let kind = name.strip_prefix('<')?.strip_suffix('>')?;
            self.of_kind(kind, |part| *part == Part::Unnamed)
        })
    }

    fn of_kind(&self, kind: &str, wanted: impl Fn(&Part) -> bool) -> Option<ObjectId> {
        let graph = self.heap.graph();
        let labels = graph.edges.label.get(graph.edges.range(self.object)).unwrap_or_default();
        let edges = graph.referents(self.object).iter().zip(labels);
        let found = edges.filter(|(_, label)| label.part().as_ref().is_some_and(&wanted));
        found.map(|(to, _)| *to).find(|to| self.heap.kinds().name(*to) == kind)
    }
}

fn show(token: &Token) -> String {
    match token {
        Token::Name(name) => format!(".{name}"),
        Token::Key(name) => format!("['{name}']"),
        Token::Index(place) => format!("[{place}]"),
        Token::Position(place) => format!("[#{place}]"),
        Token::Member(kind) => format!("{{{kind}}}"),
    }
}

fn is(graph: &Graph, id: NameId, name: &str) -> bool {
    graph.names.get(id as usize).is_some_and(|it| it == name)
}

/// The first referent whose label is wanted.
pub(super) fn labelled(graph: &Graph, object: ObjectId, wanted: impl Fn(&Part) -> bool) -> Option<ObjectId> {
    let range = graph.edges.range(object);
    let labels = graph.edges.label.get(range.clone())?;
    let place = labels.iter().position(|label| label.part().as_ref().is_some_and(&wanted))?;
    graph.edges.to.get(range.start + place).copied()
}

/// Names of a dict's or object's own references.
fn names(graph: &Graph, object: ObjectId) -> impl Iterator<Item = &str> {
    let labels: &[Label] = graph.edges.label.get(graph.edges.range(object)).unwrap_or_default();
    labels.iter().filter_map(|label| name_of(graph, *label))
}

/// An attribute by name: of the object itself, or in its own dict.
pub(super) fn attribute(heap: &Heap<'_>, object: ObjectId, name: &str) -> Option<ObjectId> {
    let graph = heap.graph();
    let own = |part: &Part| matches!(part, Part::Attribute(it) | Part::Local(it) if is(graph, *it, name));
    let entry = |part: &Part| matches!(part, Part::Attribute(it) | Part::Key(it) if is(graph, *it, name));
    let is_plain_dict = graph.kind_of(object).nature == Nature::Dict;
    let space = is_plain_dict && heap.anchors().is_namespace(object);
    let in_dict = own_dict(heap, object).and_then(|dict| labelled(graph, dict, entry));
    let in_self = if space { labelled(graph, object, entry) } else { labelled(graph, object, own) };
    in_self.or(in_dict)
}

fn own_dict(heap: &Heap<'_>, object: ObjectId) -> Option<ObjectId> {
    labelled(heap.graph(), object, |part| *part == Part::Special(nilometer_trace::heap::Special::Dict))
}

/// Names like the one that was not found: those that share most of it first.
fn near<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let word = word.to_lowercase();
    let mut names: Vec<&str> = names.filter(|name| !name.starts_with("__")).collect();
    names.sort_unstable();
    names.dedup();
    names.sort_by_cached_key(|name| {
        let name = name.to_lowercase();
        let shared = name.chars().zip(word.chars()).take_while(|(a, b)| a == b).count();
        (!name.contains(&word) || word.is_empty(), usize::MAX - shared)
    });
    names.truncate(OFFERED);
    names.into_iter().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_paths_are_taken_apart() {
        let name = |text: &str| Token::Name(text.into());
        let key = |text: &str| Token::Key(text.into());
        let known = [
            ("a.b", vec![name("a"), name("b")]),
            (".a['k'][\"j\"][3]", vec![name("a"), key("k"), key("j"), Token::Index(3)]),
            ("[#2]{str}", vec![Token::Position(2), Token::Member("str".into())]),
            (".<dict of Node>.x", vec![name("<dict of Node>"), name("x")]),
            ("['it\\'s']", vec![key("it's")]),
        ];
        for (text, tokens) in known {
            assert_eq!(parse(text).unwrap(), tokens, "{text}");
        }
        for bad in ["a.", "a[", "a['x", "a['x'", "a[x]", "a{", ".a..b", "[1]x"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn locals_have_a_short_form() {
        assert_eq!(short_local("train.py:33 step() batch").as_deref(), Some("train.py:step.batch"));
        assert_eq!(short_local("batch"), None);
    }
}

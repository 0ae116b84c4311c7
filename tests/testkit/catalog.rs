//! Large catalogs, made up: what the benchmark measures, and what the example `catalog` writes.
//!
//! What is in them is in the proportions of published ones: descriptions in Markdown, examples as JSON
//! in a text (every quote escaped), icons and older bundles in base64, and many small nodes. The same
//! shape gives the same bytes, always.
//!
//! ```text
//! Shape ─▶ package by package: blobs ─▶ JSON or YAML ─▶ one file for each, or one for all
//! ```

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// What a catalog looks like.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// How many packages.
    pub packages: usize,
    /// Bundles in each of them.
    pub bundles: usize,
    /// Channels in each of them; the first has all bundles.
    pub channels: usize,
    /// Whether bundles have metadata; without, they are as small as they can be.
    pub has_metadata: bool,
    /// Whether all packages are in one file.
    pub is_one_file: bool,
}

impl Shape {
    /// 5,000 bundles, some 100 MB.
    pub const LARGE: Self =
        Self { packages: 250, bundles: 20, channels: 2, has_metadata: true, is_one_file: false };

    /// The shapes that have names.
    pub const NAMED_SHAPES: [(&str, Self); 5] = [
        ("large", Self::LARGE),
        ("one-file", Self { is_one_file: true, ..Self::LARGE }),
        ("one-package", Self { packages: 1, bundles: 5_000, ..Self::LARGE }),
        ("channels", Self { packages: 1, bundles: 1_000, channels: 1_000, ..Self::LARGE }),
        ("tiny", Self { packages: 2_500, channels: 1, has_metadata: false, ..Self::LARGE }),
    ];

    /// Blobs in each package.
    #[must_use]
    pub fn blobs(&self) -> usize {
        1 + self.channels + self.bundles
    }
}

/// The format of the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CatalogFormat {
    /// Indented by four, one value after another, as `opm render` prints it.
    Json,
    /// Documents with block scalars.
    Yaml,
}

/// Writes a catalog; gives its files.
pub fn write(directory: &Path, shape: &Shape, form: CatalogFormat) -> Vec<PathBuf> {
    let name = match form {
        CatalogFormat::Json => "catalog.json",
        CatalogFormat::Yaml => "catalog.yaml",
    };
    let (mut files, mut text) = (Vec::new(), String::new());
    for package in 0..shape.packages {
        for blob in package_blobs(package, shape) {
            match form {
                CatalogFormat::Json => write_json(&blob, &mut text),
                CatalogFormat::Yaml => {
                    text.push_str("---\n");
                    write_yaml(&blob, 0, &mut text);
                }
            }
        }
        let is_last = package + 1 == shape.packages;
        if shape.is_one_file && !is_last {
            continue;
        }
        let directory = if shape.is_one_file {
            directory.to_path_buf()
        } else {
            directory.join(operator(package))
        };
        std::fs::create_dir_all(&directory).unwrap();
        let path = directory.join(name);
        std::fs::write(&path, std::mem::take(&mut text)).unwrap();
        files.push(path);
    }
    files
}

fn operator(package: usize) -> String {
    format!("operator-{package}")
}

fn package_blobs(package: usize, shape: &Shape) -> Vec<Value> {
    let mut words = TextGenerator(0x9e37_79b9_7f4a_7c15 ^ (u64::try_from(package).unwrap() + 1));
    let name = operator(package);
    let mut blobs = vec![json!({
        "schema": "olm.package",
        "name": name,
        "defaultChannel": channel(0),
        "description": words.markdown(800),
        "icon": {"base64data": words.base64(9_000), "mediatype": "image/svg+xml"},
    })];
    blobs.extend((0..shape.channels).map(|number| {
        // All channels but the first skip a part of the bundles.
        let from = number * shape.bundles.saturating_sub(1) / shape.channels.max(1);
        let numbers: Vec<_> = match number {
            0 => (0..shape.bundles).collect(),
            _ => (from..shape.bundles).take(20).collect(),
        };
        let entry = |at: usize| {
            let number = numbers[at];
            match at.checked_sub(1) {
                None => json!({"name": bundle_name(&name, number)}),
                Some(before) => json!({
                    "name": bundle_name(&name, number),
                    "replaces": bundle_name(&name, numbers[before]),
                    "skipRange": format!(">=1.0.0 <1.{number}.0"),
                }),
            }
        };
        json!({
            "schema": "olm.channel",
            "package": name,
            "name": channel(number),
            "entries": (0..numbers.len()).map(entry).collect::<Vec<_>>(),
        })
    }));
    blobs
        .extend((0..shape.bundles).map(|number| bundle(&name, package, number, shape, &mut words)));
    blobs
}

fn channel(number: usize) -> String {
    if number == 0 { "stable".to_owned() } else { format!("stable-v{number}") }
}

fn bundle_name(name: &str, number: usize) -> String {
    format!("{name}.v1.{number}.0")
}

fn bundle(
    name: &str,
    package: usize,
    number: usize,
    shape: &Shape,
    words: &mut TextGenerator,
) -> Value {
    let image = |what: &str, words: &mut TextGenerator| {
        let [a, b, c, d] = [(); 4].map(|()| words.next());
        let digest = format!("{a:016x}{b:016x}{c:016x}{d:016x}");
        format!("registry.example.com/{name}/{what}@sha256:{digest}")
    };
    let version = format!("1.{number}.0");
    let package_property =
        json!({"type": "olm.package", "value": {"packageName": name, "version": version}});
    let bundle_image = image("bundle", words);
    if !shape.has_metadata {
        return json!({
            "schema": "olm.bundle", "package": name, "name": bundle_name(name, number),
            "image": bundle_image, "properties": [package_property],
        });
    }
    let apis: Vec<_> = (0..3 + package % 6).map(|_| words.kind()).enumerate().collect();
    let group = format!("{name}.example.com");
    let kind = |at: usize, kind: &str| format!("{kind}{at}");
    let mut properties: Vec<_> = apis
        .iter()
        .map(|(at, api)| {
            let value = json!({"group": group, "kind": kind(*at, api), "version": "v1alpha1"});
            json!({"type": "olm.gvk", "value": value})
        })
        .collect();
    properties.push(json!({
        "type": "olm.gvk.required",
        "value": {"group": "monitoring.coreos.com", "kind": "ServiceMonitor", "version": "v1"},
    }));
    properties.push(package_property);
    properties.push(json!({
        "type": "olm.package.required",
        "value": {"packageName": "prometheus", "versionRange": ">=0.47.0 <1.0.0"},
    }));
    let owned: Vec<_> = apis
        .iter()
        .map(|(at, api)| {
            let kind = kind(*at, api);
            json!({
                "name": format!("{}s.{group}", kind.to_lowercase()),
                "version": "v1alpha1",
                "kind": kind,
                "displayName": words.sentence(4),
                "description": words.sentence(18),
            })
        })
        .collect();
    let examples: Vec<_> = apis
        .iter()
        .map(|(at, api)| {
            json!({
                "apiVersion": format!("{group}/v1alpha1"),
                "kind": kind(*at, api),
                "metadata": {"name": words.word(), "labels": {"app.kubernetes.io/part-of": name}},
                "spec": {
                    "replicas": 3, "image": image("operand", words), "paused": false,
                    "storage": {"size": "10Gi", "className": words.word()},
                    "resources": {"limits": {"cpu": "500m", "memory": "1Gi"}, "requests": {"cpu": "10m"}},
                },
            })
        })
        .collect();
    let modes = ["OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"]
        .map(|mode| json!({"type": mode, "supported": mode != "MultiNamespace"}));
    let metadata = json!({
        "annotations": {
            "alm-examples": format!("{:#}", Value::from(examples)),
            "capabilities": "Full Lifecycle",
            "categories": "Database, Monitoring",
            "containerImage": image("manager", words),
            "createdAt": "2023-05-15T12:11:09Z",
            "description": words.sentence(20),
            "olm.skipRange": format!("<{version}"),
            "operators.openshift.io/infrastructure-features": "[\"disconnected\", \"proxy-aware\"]",
            "operators.openshift.io/valid-subscription": "[\"Example Platform Plus\"]",
            "repository": format!("https://git.example.com/{name}"),
        },
        "apiServiceDefinitions": {},
        "crdDescriptions": {"owned": owned, "required": [
            {"kind": "ServiceMonitor", "name": "servicemonitors.monitoring.coreos.com", "version": "v1"},
        ]},
        "description": words.markdown(7_000),
        "displayName": words.sentence(3),
        "installModes": modes,
        "keywords": (0..6).map(|_| words.word()).collect::<Vec<_>>(),
        "links": (0..3).map(|_| {
            let word = words.word();
            json!({"name": word, "url": format!("https://docs.example.com/{name}/{word}")})
        }).collect::<Vec<_>>(),
        "maintainers": (0..2).map(|_| {
            let word = words.word();
            json!({"email": format!("{word}@example.com"), "name": words.sentence(2)})
        }).collect::<Vec<_>>(),
        "maturity": "stable",
        "minKubeVersion": "1.22.0",
        "provider": {"name": "Example", "url": "https://example.com"},
    });
    // Catalogs of older releases have the manifests themselves, in base64.
    if package.is_multiple_of(5) {
        let csv = json!({
            "apiVersion": "operators.coreos.com/v1alpha1",
            "kind": "ClusterServiceVersion",
            "metadata": {"name": bundle_name(name, number), "annotations": metadata["annotations"]},
            "spec": {
                "version": version,
                "description": metadata["description"],
                "customresourcedefinitions": {"owned": owned},
                "installModes": metadata["installModes"],
            },
        });
        properties.push(json!({
            "type": "olm.bundle.object",
            "value": {"data": base64(csv.to_string().as_bytes())},
        }));
    } else {
        properties.push(json!({"type": "olm.csv.metadata", "value": metadata}));
    }
    let mut related: Vec<_> =
        ["manager", "operand", "proxy", "backup", "exporter", "init", "must-gather"]
            .map(|what| json!({"name": what, "image": image(what, words)}))
            .into();
    related.push(json!({"name": "bundle", "image": bundle_image}));
    json!({
        "schema": "olm.bundle",
        "package": name,
        "name": bundle_name(name, number),
        "image": bundle_image,
        "properties": properties,
        "relatedImages": related,
    })
}

/// Texts from a fixed source.
struct TextGenerator(u64);

const WORDS: [&str; 24] = [
    "operator",
    "cluster",
    "storage",
    "backup",
    "replica",
    "the",
    "namespace",
    "of",
    "secret",
    "upgrade",
    "monitoring",
    "with",
    "certificate",
    "manages",
    "database",
    "and",
    "pipeline",
    "workload",
    "in",
    "tenant",
    "network",
    "policy",
    "for",
    "gateway",
];

impl TextGenerator {
    /// The generator `splitmix64`.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn word(&mut self) -> &'static str {
        WORDS[usize::try_from(self.next() % 24).unwrap()]
    }

    /// A kind, in upper camel case.
    fn kind(&mut self) -> String {
        let (first, rest) = self.word().split_at(1);
        first.to_uppercase() + rest
    }

    fn sentence(&mut self, count: usize) -> String {
        let mut sentence = self.kind();
        for _ in 1..count {
            sentence.push(' ');
            sentence.push_str(self.word());
        }
        sentence
    }

    /// Headings, lists, quotes, code and links, up to about this many bytes.
    fn markdown(&mut self, bytes: usize) -> String {
        let mut text = String::with_capacity(bytes + 256);
        while text.len() < bytes {
            let _ = match self.next() % 6 {
                0 => writeln!(text, "## {}\n", self.sentence(4)),
                1 => writeln!(text, "* **{}**: {}", self.sentence(2), self.sentence(12)),
                2 => writeln!(
                    text,
                    "```yaml\nkind: {}\nname: \"{}\"\n```\n",
                    self.kind(),
                    self.word()
                ),
                3 => writeln!(
                    text,
                    "See [{}](https://docs.example.com/{}).\n",
                    self.sentence(3),
                    self.word()
                ),
                4 => writeln!(
                    text,
                    "Set \"{}\" to `{}` — {}.\n",
                    self.word(),
                    self.word(),
                    self.sentence(8)
                ),
                _ => writeln!(text, "{}.\n{}.\n", self.sentence(14), self.sentence(11)),
            };
        }
        text
    }

    fn base64(&mut self, bytes: usize) -> String {
        let bytes: Vec<u8> = (0..bytes / 8).flat_map(|_| self.next().to_le_bytes()).collect();
        base64(&bytes)
    }
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| usize::from(chunk.get(at).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            let is_padding = digit > chunk.len();
            let found = DIGITS[bits >> (18 - 6 * digit) & 63];
            text.push(if is_padding { '=' } else { char::from(found) });
        }
    }
    text
}

/// Indented by four.
fn write_json(value: &Value, out: &mut String) {
    for line in format!("{value:#}").lines() {
        let text = line.trim_start_matches(' ');
        let _ = writeln!(out, "{:indent$}{text}", "", indent = 2 * (line.len() - text.len()));
    }
}

/// A value as a tool would write it in YAML.
pub fn to_yaml(value: &Value) -> String {
    let mut text = String::new();
    write_yaml(value, 0, &mut text);
    text
}

/// YAML as a tool would write it: members and items on lines of their own, texts of several lines as
/// blocks.
fn write_yaml(value: &Value, indent: usize, out: &mut String) {
    let pad = " ".repeat(indent);
    match value {
        Value::Object(members) => {
            for (key, member) in members {
                let _ = write!(out, "{pad}{}:", quote_if_needed(key));
                write_yaml_value(member, indent, out);
            }
        }
        Value::Array(items) => {
            for item in items {
                let mut inner = String::new();
                match item {
                    Value::Object(members) if !members.is_empty() => {
                        write_yaml(item, indent + 2, &mut inner);
                        let _ = write!(out, "{pad}- {}", inner.trim_start());
                    }
                    _ => {
                        let _ = write!(out, "{pad}-");
                        write_yaml_value(item, indent, out);
                    }
                }
            }
        }
        _ => {}
    }
}

/// What stands behind `key:` or `-`.
fn write_yaml_value(value: &Value, indent: usize, out: &mut String) {
    let pad = " ".repeat(indent + 2);
    match value {
        Value::Object(members) if members.is_empty() => out.push_str(" {}\n"),
        Value::Array(items) if items.is_empty() => out.push_str(" []\n"),
        Value::Object(_) => {
            out.push('\n');
            write_yaml(value, indent + 2, out);
        }
        Value::Array(_) => {
            out.push('\n');
            write_yaml(value, indent, out);
        }
        Value::String(text) if text.contains('\n') && !text.starts_with([' ', '\n']) => {
            let body = text.trim_end_matches('\n');
            let _ = writeln!(
                out,
                " {}",
                match text.len() - body.len() {
                    0 => "|-",
                    1 => "|",
                    _ => "|+",
                }
            );
            for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
                match line {
                    "" => out.push('\n'),
                    _ => {
                        let _ = writeln!(out, "{pad}{line}");
                    }
                }
            }
        }
        Value::String(text) => {
            let _ = writeln!(out, " {}", quote_if_needed(text));
        }
        scalar => {
            let _ = writeln!(out, " {scalar}");
        }
    }
}

/// A text without quotes where it can be read back so.
fn quote_if_needed(text: &str) -> String {
    let is_plain = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_alphanumeric() || " ._/@-+=:,()".contains(c))
        && !text.contains(": ")
        && !text.ends_with([':', ' '])
        && !["true", "false", "null", "yes", "no", "on", "off", "y", "n"]
            .contains(&text.to_lowercase().as_str());
    if is_plain { text.to_owned() } else { Value::from(text).to_string() }
}

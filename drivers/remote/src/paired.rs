//! The nodes that were paired with: which there are, and connecting to them by name.

use crate::{Compression, Options, RemoteDriver, connect};
use quipu_core::{Error, ErrorKind, Result};
use quipu_link::nodes::{Node, Nodes};
use quipu_link::{Folder, Key};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The file of a client's key.
pub const CLIENT_KEY: &str = "client.key";

/// The variable that names Quipu's folder.
const HOME: &str = "QUIPU_HOME";

/// The variable that says what is compressed.
const COMPRESSION: &str = "QUIPU_COMPRESSION";

/// The variable that names the nodes to connect to.
const NODES: &str = "QUIPU_NODES";

/// How long a node may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

fn failed(problem: String) -> Error {
    ErrorKind::InvalidArgument {
        what: "find nodes",
        problem,
    }
    .into()
}

/// Where Quipu's keys and lists are: `QUIPU_HOME`, or `quipu` in the user's folder for configuration.
///
/// # Errors
/// If the environment names no such folder.
pub fn home() -> Result<PathBuf> {
    let named = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(home) = named(HOME) {
        return Ok(home.into());
    }
    if let Some(configuration) = named("XDG_CONFIG_HOME") {
        return Ok(PathBuf::from(configuration).join("quipu"));
    }
    let home = named("HOME").ok_or_else(|| {
        failed(format!(
            "the environment names no home; set {HOME} to a folder for keys"
        ))
    })?;
    Ok(PathBuf::from(home).join(".config").join("quipu"))
}

/// All nodes that were paired with, if any were.
///
/// # Errors
/// If the list cannot be read.
pub fn all() -> Result<Vec<Node>> {
    let home = home()?;
    if !home.exists() {
        return Ok(Vec::new());
    }
    let folder = Folder::open(home).map_err(|error| failed(error.to_string()))?;
    let listed = Nodes::of(&folder).list();
    listed.map_err(|error| failed(error.to_string()))
}

/// The nodes that the environment (`QUIPU_NODES`) or else the file `config` in [Quipu's folder](home) asks for (a line
/// `nodes = a, b`): names or addresses, or `all`. None if neither says anything.
///
/// # Errors
/// If one was not paired with, or the file makes no sense.
pub fn asked_for() -> Result<Vec<Node>> {
    let said = match std::env::var(NODES) {
        Ok(said) => Some(said),
        Err(_) => configured()?.nodes,
    };
    let Some(said) = said else {
        return Ok(Vec::new());
    };
    let names = said.split(',').map(str::trim);
    let names: Vec<&str> = names.filter(|name| !name.is_empty()).collect();
    match names[..] {
        ["all"] => all(),
        _ => find(&names),
    }
}

/// Nodes that were paired with, by names or addresses.
///
/// # Errors
/// If one was not.
pub fn find(names: &[&str]) -> Result<Vec<Node>> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let known = all()?;
    let find = |name: &&str| {
        let mut nodes = known.iter();
        let found = nodes.find(|node| node.name == **name || node.address == **name);
        found.cloned().ok_or_else(|| {
            let names: Vec<&str> = known.iter().map(|node| node.name.as_str()).collect();
            failed(format!(
                "no node '{name}' was paired with; there are: {}; `quipu pair` adds one",
                names.join(", ")
            ))
        })
    };
    names.iter().map(find).collect()
}

/// What of the bytes that go to nodes is compressed, as the environment (`QUIPU_COMPRESSION`) or else the file `config` says
/// (a line `compression = lz4`); if neither does, what takes less time so.
///
/// # Errors
/// If it says none of `auto`, `adaptive`, `lz4` and `off`, or the file makes no sense.
pub fn compression() -> Result<Compression> {
    let Ok(said) = std::env::var(COMPRESSION) else {
        return Ok(configured()?.compression.unwrap_or_default());
    };
    let said = said.parse();
    said.map_err(|problem: String| failed(format!("{COMPRESSION}: {problem}")))
}

/// What the file says, if there is one.
fn configured() -> Result<Configuration> {
    let Ok(home) = home() else {
        return Ok(Configuration::default());
    };
    let path = home.join("config");
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Ok(Configuration::default());
        }
        Err(error) => return Err(failed(format!("cannot read {}: {error}", path.display()))),
    };
    parse(&text).map_err(|line| {
        failed(format!(
            "{} has a line {line} that makes no sense; write `nodes = a, b` or `nodes = all`, and \
             `compression = auto`, `adaptive`, `lz4` or `off`",
            path.display()
        ))
    })
}

/// What a configuration says.
#[derive(Debug, Default, PartialEq, Eq)]
struct Configuration {
    nodes: Option<String>,
    compression: Option<Compression>,
}

/// What a configuration says; the number of a line that says something else.
fn parse(text: &str) -> std::result::Result<Configuration, usize> {
    let mut said = Configuration::default();
    for (at, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        match line.split_once('=') {
            _ if line.is_empty() => {}
            Some((name, value)) => match name.trim() {
                "nodes" => said.nodes = Some(value.trim().to_owned()),
                "compression" => {
                    said.compression = Some(value.trim().parse().map_err(|_| at + 1)?);
                }
                _ => return Err(at + 1),
            },
            None => return Err(at + 1),
        }
    }
    Ok(said)
}

/// Connects to a node that was paired with.
///
/// # Errors
/// As [`connect`].
pub fn connect_to(node: &Node) -> Result<Arc<RemoteDriver>> {
    let folder = Folder::open(home()?).map_err(|error| failed(error.to_string()))?;
    let key = Key::of(&folder, CLIENT_KEY).map_err(|error| failed(error.to_string()))?;
    let options = Options {
        patience: PATIENCE,
        compression: compression()?,
        ..Options::new(&node.name, &node.address, node.fingerprint)
    };
    connect(&options, &key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_says_what_it_may_and_nothing_else() {
        assert_eq!(parse(""), Ok(Configuration::default()));
        let nodes = Configuration {
            nodes: Some("a, b".to_owned()),
            compression: None,
        };
        assert_eq!(parse("# nothing\n\n nodes = a, b # two\n"), Ok(nodes));
        let both = Configuration {
            nodes: Some("all".to_owned()),
            compression: Some(Compression::Lz4),
        };
        assert_eq!(parse("compression=lz4\nnodes = all"), Ok(both));
        assert_eq!(parse("compression = gzip"), Err(1));
        assert_eq!(parse("nodes = all\nnode = x"), Err(2));
        assert_eq!(parse("nodes"), Err(1));
    }
}

//! The nodes that were paired with: which there are, and connecting to them by name.

use crate::{Met, Options, RemoteDriver, meet, together};
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
        Err(_) => configured()?,
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

/// What the file says, if there is one.
fn configured() -> Result<Option<String>> {
    let Ok(home) = home() else {
        return Ok(None);
    };
    let path = home.join("config");
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(format!("cannot read {}: {error}", path.display()))),
    };
    parse(&text).map_err(|line| {
        failed(format!(
            "{} has a line {line} that makes no sense; write `nodes = a, b` or `nodes = all`",
            path.display()
        ))
    })
}

/// The nodes that a configuration names; the number of a line that says something else.
fn parse(text: &str) -> std::result::Result<Option<String>, usize> {
    let mut said = None;
    for (at, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        match line.split_once('=') {
            _ if line.is_empty() => {}
            Some((name, value)) if name.trim() == "nodes" => said = Some(value.trim().to_owned()),
            _ => return Err(at + 1),
        }
    }
    Ok(said)
}

/// Connects to nodes that were paired with, to be used [together]: the driver of those that are there, if one is; and why
/// others are not.
#[must_use]
pub fn connect_to(nodes: &[Node]) -> (Option<Result<Arc<RemoteDriver>>>, Vec<Error>) {
    let (mut met, mut errors) = (Vec::new(), Vec::new());
    for node in nodes {
        match meet_one(node) {
            Ok(one) => met.push(one),
            Err(error) => errors.push(error),
        }
    }
    let driver = (!met.is_empty()).then(|| together(met));
    (driver, errors)
}

fn meet_one(node: &Node) -> Result<Met> {
    let folder = Folder::open(home()?).map_err(|error| failed(error.to_string()))?;
    let key = Key::of(&folder, CLIENT_KEY).map_err(|error| failed(error.to_string()))?;
    let options = Options {
        patience: PATIENCE,
        ..Options::new(&node.name, &node.address, node.fingerprint)
    };
    meet(&options, &key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_names_nodes_and_nothing_else() {
        assert_eq!(parse(""), Ok(None));
        assert_eq!(
            parse("# nothing\n\n nodes = a, b # two\n"),
            Ok(Some("a, b".to_owned()))
        );
        assert_eq!(parse("nodes = all\nnode = x"), Err(2));
        assert_eq!(parse("nodes"), Err(1));
    }
}

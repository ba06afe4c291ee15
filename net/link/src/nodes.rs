//! The nodes that a client has paired with: a file of lines, each a fingerprint, an address and a
//! name.

use crate::clients::plain;
use crate::error::{LinkError, Result};
use crate::folder::{Folder, Locked};
use crate::invitation::check_address;
use crate::key::Fingerprint;

/// A node that a client knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its key.
    pub fingerprint: Fingerprint,
    /// Its address, as `host:port`.
    pub address: String,
    /// Its name here: no other node has it.
    pub name: String,
}

/// The nodes of a client.
#[derive(Clone, Debug)]
pub struct Nodes(Folder);

const FILE: &str = "nodes";

impl Nodes {
    /// The nodes in a client's folder.
    #[must_use]
    pub fn of(folder: &Folder) -> Self {
        Self(folder.clone())
    }

    /// All of them, in the order in which they were paired with.
    ///
    /// # Errors
    /// If the file cannot be read, or something else is in it.
    pub fn list(&self) -> Result<Vec<Node>> {
        let lines = self.0.read_lines(FILE)?;
        let parsed = lines.iter().enumerate().map(|(at, line)| {
            parse(line).ok_or_else(|| {
                let problem = format!("has a line {} that names no node; remove it", at + 1);
                LinkError::bad_file(&self.0.file(FILE), problem)
            })
        });
        parsed.collect()
    }

    /// Remembers a node, in place of the entries of its key, and of the key of another that was at
    /// that address: a node that was set up anew has another key. A name that another node has gets
    /// a number, and so does one that [means something else](check_name).
    ///
    /// # Errors
    /// If the address is none; or as [`Nodes::list`].
    pub fn remember(&self, fingerprint: Fingerprint, address: &str, name: &str) -> Result<Node> {
        check_address(address)?;
        let locked = self.0.lock()?;
        let mut nodes = self.list()?;
        nodes.retain(|node| node.fingerprint != fingerprint && node.address != address);
        let wanted = plain(name, "node").replace(',', " ");
        let mut name = wanted.clone();
        let mut number = 2_u32;
        while check_name(&name).is_err() || nodes.iter().any(|node| node.name == name) {
            name = format!("{wanted}-{number}");
            number += 1;
        }
        let node = Node {
            fingerprint,
            address: address.to_owned(),
            name,
        };
        nodes.push(node.clone());
        self.write(&nodes, &locked)?;
        Ok(node)
    }

    /// Notes that a node is somewhere else, under the name that it has here.
    ///
    /// # Errors
    /// If there is no node of this key, or the address is none; or as [`Nodes::list`].
    pub fn has_moved(&self, fingerprint: Fingerprint, address: &str) -> Result<Node> {
        check_address(address)?;
        let locked = self.0.lock()?;
        let mut nodes = self.list()?;
        let known = nodes
            .iter_mut()
            .find(|node| node.fingerprint == fingerprint);
        let Some(known) = known else {
            return Err(LinkError::BadText {
                what: "the node",
                text: fingerprint.to_string(),
                problem: "was not paired with",
            });
        };
        address.clone_into(&mut known.address);
        let node = known.clone();
        self.write(&nodes, &locked)?;
        Ok(node)
    }

    /// Forgets the node of this name, address or fingerprint.
    ///
    /// # Errors
    /// If there is no such node; or as [`Nodes::list`].
    pub fn forget(&self, which: &str) -> Result<Node> {
        let locked = self.0.lock()?;
        let mut nodes = self.list()?;
        let fingerprint = which.parse::<Fingerprint>().ok();
        let found = nodes.iter().position(|node| {
            node.name == which || node.address == which || Some(node.fingerprint) == fingerprint
        });
        let Some(found) = found else {
            return Err(LinkError::BadText {
                what: "the node",
                text: which.to_owned(),
                problem: "was not paired with, by name, address or fingerprint",
            });
        };
        let node = nodes.remove(found);
        self.write(&nodes, &locked)?;
        Ok(node)
    }

    fn write(&self, nodes: &[Node], locked: &Locked) -> Result<()> {
        let lines = nodes
            .iter()
            .map(|node| format!("{}\t{}\t{}", node.fingerprint, node.address, node.name));
        self.0.write_lines(FILE, lines, locked)
    }
}

/// Checks that a node may have this name where nodes are named: by name, address or fingerprint,
/// with commas between them, or `all` for all.
///
/// # Errors
/// If it may not.
pub fn check_name(name: &str) -> Result<()> {
    let problem = match name {
        "all" => "means all nodes; choose another name",
        name if name.trim().is_empty() => "is no name; choose another",
        name if name.contains(',') => "would be several nodes; choose a name without commas",
        // A dishonest node would be taken for another, which is named so.
        name if check_address(name).is_ok() => "is an address; choose a name without a port",
        name if name.parse::<Fingerprint>().is_ok() => "is a fingerprint; choose another name",
        _ => return Ok(()),
    };
    Err(LinkError::BadText {
        what: "the name",
        text: name.to_owned(),
        problem,
    })
}

fn parse(line: &str) -> Option<Node> {
    let mut fields = line.split('\t');
    let node = Node {
        fingerprint: fields.next()?.parse().ok()?,
        address: fields.next()?.to_owned(),
        name: fields.next().filter(|name| !name.is_empty())?.to_owned(),
    };
    check_address(&node.address).ok()?;
    fields.next().is_none().then_some(node)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Key;

    #[test]
    fn nodes_are_remembered_and_forgotten() {
        let parent = tempfile::tempdir().unwrap();
        let folder = Folder::open(parent.path().join("client")).unwrap();
        let nodes = Nodes::of(&folder);
        let [a, b] = ["a", "b"].map(|name| Key::of(&folder, name).unwrap().fingerprint());
        nodes.remember(a, "one:7", "gpu").unwrap();
        assert_eq!(nodes.remember(b, "two:7", "gpu").unwrap().name, "gpu-2");
        // It has moved.
        nodes.remember(a, "[::1]:8", "gpu").unwrap();
        let list = nodes.list().unwrap();
        assert_eq!(list.len(), 2);
        assert_eq!(
            (list[1].address.as_str(), list[1].fingerprint),
            ("[::1]:8", a)
        );
        assert!(nodes.remember(a, "nowhere", "x").is_err());
        // It is found somewhere else, and keeps its name and its place.
        assert!(nodes.has_moved(a, "nowhere").is_err());
        let moved = nodes.has_moved(b, "three:7").unwrap();
        assert_eq!(
            (moved.name.as_str(), &moved),
            ("gpu-2", &nodes.list().unwrap()[0])
        );
        nodes.has_moved(b, "two:7").unwrap();
        assert_eq!(nodes.forget("two:7").unwrap().fingerprint, b);
        assert!(nodes.forget("two:7").is_err());
        assert!(nodes.has_moved(b, "two:7").is_err());
        assert_eq!(nodes.forget("gpu").unwrap().fingerprint, a);
        assert!(nodes.list().unwrap().is_empty());
    }

    #[test]
    fn a_node_that_was_set_up_anew_takes_the_place_of_what_it_was() {
        let parent = tempfile::tempdir().unwrap();
        let folder = Folder::open(parent.path().join("client")).unwrap();
        let nodes = Nodes::of(&folder);
        let [a, b] = ["a", "b"].map(|name| Key::of(&folder, name).unwrap().fingerprint());
        nodes.remember(a, "one:7", "gpu").unwrap();
        nodes.remember(b, "one:7", "gpu").unwrap();
        let list = nodes.list().unwrap();
        assert_eq!((list.len(), list[0].fingerprint), (1, b));
        assert_eq!(list[0].name, "gpu");
    }

    #[test]
    fn no_node_is_called_what_means_several_or_another() {
        let parent = tempfile::tempdir().unwrap();
        let folder = Folder::open(parent.path().join("client")).unwrap();
        let nodes = Nodes::of(&folder);
        let [a, b] = ["a", "b"].map(|name| Key::of(&folder, name).unwrap().fingerprint());
        for name in ["all", "a,b", "", " ", "one:7", "[::1]:7", &b.to_string()] {
            assert!(check_name(name).is_err(), "{name}");
        }
        check_name("a b").unwrap();
        // A node may call itself anything.
        assert_eq!(nodes.remember(a, "one:7", "all").unwrap().name, "all-2");
        assert_eq!(nodes.remember(b, "two:7", "a,b").unwrap().name, "a b");
        let named = nodes.remember(b, "two:7", "one:7").unwrap();
        assert_eq!(named.name, "one:7-2");
    }

    #[test]
    fn lines_that_name_no_node_are_errors() {
        let parent = tempfile::tempdir().unwrap();
        let folder = Folder::open(parent.path().join("client")).unwrap();
        let key = Key::of(&folder, "a").unwrap().fingerprint();
        let locked = folder.lock().unwrap();
        for line in [
            "x",
            &format!("{key}\tone\tgpu"),
            &format!("{key}\tone:7\tgpu\tx"),
        ] {
            folder
                .write(FILE, format!("{line}\n").as_bytes(), &locked)
                .unwrap();
            assert!(Nodes::of(&folder).list().is_err(), "{line}");
        }
    }
}

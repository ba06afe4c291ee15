//! The clients that a node has enrolled: a file of lines, each a fingerprint, a name, a time and,
//! unless they are all, its rights.
//!
//! A client is enrolled for good when it says hello for the first time. Until then its pairing may
//! have ended half-way, and it is forgotten when its invitation would be no good any more. The line
//! has that time behind its rights.
//!
//! The file is read anew for each connection, so that `quipu revoke` takes effect for the next one.

use crate::error::{LinkError, Result};
use crate::folder::{Folder, Locked};
use crate::key::Fingerprint;
use crate::rights::Rights;
use quipu_protocol::limits::MAX_NAME;
use quipu_protocol::message::presentable;
use std::time::Duration;

/// A client that a node knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// Its key.
    pub fingerprint: Fingerprint,
    /// Its name here: no other client has it.
    pub name: String,
    /// The time at which it was enrolled, since 1970, in whole seconds.
    pub since: Duration,
    /// Its rights here.
    pub rights: Rights,
    /// The time at which it is forgotten unless it says hello before, since 1970, in whole seconds;
    /// none if it has.
    pub until: Option<Duration>,
}

impl Client {
    fn is_kept(&self, now: Duration) -> bool {
        self.until.is_none_or(|until| now < until)
    }
}

/// The clients of a node.
#[derive(Clone, Debug)]
pub struct Clients(Folder);

const FILE: &str = "clients";

/// A name as lists have it: in one line, without the separators of its fields.
pub(crate) fn plain(name: &str, or: &str) -> String {
    let name = presentable(name, MAX_NAME).replace(['\t', '\n'], " ");
    match name.trim() {
        "" => or.to_owned(),
        name => name.to_owned(),
    }
}

impl Clients {
    /// The clients in a node's folder.
    #[must_use]
    pub fn of(folder: &Folder) -> Self {
        Self(folder.clone())
    }

    /// All of them, in the order in which they came.
    ///
    /// # Errors
    /// If the file cannot be read, or something else is in it.
    pub fn list(&self) -> Result<Vec<Client>> {
        let lines = self.0.read_lines(FILE)?;
        let parsed = lines.iter().enumerate().map(|(at, line)| {
            parse(line).ok_or_else(|| {
                let problem = format!("has a line {} that names no client; remove it", at + 1);
                LinkError::bad_file(&self.0.file(FILE), problem)
            })
        });
        parsed.collect()
    }

    /// The client of a key, if it is enrolled.
    ///
    /// # Errors
    /// As [`Clients::list`].
    pub fn find(&self, fingerprint: Fingerprint) -> Result<Option<Client>> {
        let mut clients = self.list()?.into_iter();
        Ok(clients.find(|client| client.fingerprint == fingerprint))
    }

    /// All of them at this time, of which those are gone that have not said hello in theirs.
    ///
    /// # Errors
    /// As [`Clients::list`], or if the file cannot be written.
    pub fn present(&self, now: Duration) -> Result<Vec<Client>> {
        let clients = self.list()?;
        if clients.iter().all(|client| client.is_kept(now)) {
            return Ok(clients);
        }
        let locked = self.0.lock()?;
        let mut clients = self.list()?;
        clients.retain(|client| client.is_kept(now));
        self.write(&clients, &locked)?;
        Ok(clients)
    }

    /// The client of a key that says hello, if it is enrolled: from now on for good.
    pub(crate) fn greet(&self, fingerprint: Fingerprint, now: Duration) -> Result<Option<Client>> {
        let found = self.find(fingerprint)?;
        if found.as_ref().is_none_or(|client| client.until.is_none()) {
            return Ok(found);
        }
        let locked = self.0.lock()?;
        let mut clients = self.list()?;
        clients.retain(|client| client.is_kept(now));
        let mut greeted = clients.iter_mut();
        let greeted = greeted.find(|client| client.fingerprint == fingerprint);
        let greeted = greeted.map(|client| {
            client.until = None;
            client.clone()
        });
        self.write(&clients, &locked)?;
        Ok(greeted)
    }

    /// Enrols a key, with these rights and no others that it had, until then unless it says hello
    /// before or has said it. A name that another has gets a number.
    pub(crate) fn enrol(
        &self,
        fingerprint: Fingerprint,
        name: &str,
        rights: Rights,
        (now, until): (Duration, Duration),
        locked: &Locked,
    ) -> Result<Client> {
        let mut clients = self.list()?;
        clients.retain(|client| client.is_kept(now));
        let mut before = clients.iter();
        let was_greeted =
            before.any(|client| client.fingerprint == fingerprint && client.until.is_none());
        clients.retain(|client| client.fingerprint != fingerprint);
        let wanted = plain(name, "client");
        let is_taken = |name: &str| clients.iter().any(|client| client.name == name);
        let mut name = wanted.clone();
        let mut number = 2_u32;
        while is_taken(&name) {
            name = format!("{wanted}-{number}");
            number += 1;
        }
        let client = Client {
            fingerprint,
            name,
            since: Duration::from_secs(now.as_secs()),
            rights,
            until: (!was_greeted).then(|| Duration::from_secs(until.as_secs())),
        };
        clients.push(client.clone());
        self.write(&clients, locked)?;
        Ok(client)
    }

    /// Takes an enrolment back, of the client of this name or fingerprint.
    ///
    /// # Errors
    /// If there is no such client; or as [`Clients::list`].
    pub fn revoke(&self, who: &str) -> Result<Client> {
        let locked = self.0.lock()?;
        let mut clients = self.list()?;
        let client = clients.remove(position(&clients, who)?);
        self.write(&clients, &locked)?;
        Ok(client)
    }

    /// Gives the client of this name or fingerprint these rights, and no others, for sessions that
    /// begin from now on.
    ///
    /// # Errors
    /// As [`Clients::revoke`].
    pub fn grant(&self, who: &str, rights: Rights) -> Result<Client> {
        let locked = self.0.lock()?;
        let mut clients = self.list()?;
        let found = position(&clients, who)?;
        clients[found].rights = rights;
        self.write(&clients, &locked)?;
        Ok(clients.swap_remove(found))
    }

    fn write(&self, clients: &[Client], locked: &Locked) -> Result<()> {
        let lines = clients.iter().map(|client| {
            let since = client.since.as_secs();
            let rights = match (client.rights.are_all(), client.until) {
                (true, None) => String::new(),
                (false, None) => format!("\t{}", client.rights),
                (_, Some(until)) => format!("\t{}\t{}", client.rights, until.as_secs()),
            };
            format!("{}\t{}\t{since}{rights}", client.fingerprint, client.name)
        });
        self.0.write_lines(FILE, lines, locked)
    }
}

/// The position of the client of this name or fingerprint. A text that is a fingerprint is nobody's
/// name: clients name themselves.
fn position(clients: &[Client], who: &str) -> Result<usize> {
    let is_it = |client: &Client| match who.parse::<Fingerprint>() {
        Ok(fingerprint) => client.fingerprint == fingerprint,
        Err(_) => client.name == who,
    };
    let found = clients.iter().position(is_it);
    found.ok_or_else(|| LinkError::BadText {
        what: "the client",
        text: who.to_owned(),
        problem: "is not enrolled here, by name or fingerprint",
    })
}

fn parse(line: &str) -> Option<Client> {
    let mut fields = line.split('\t');
    let client = Client {
        fingerprint: fields.next()?.parse().ok()?,
        name: fields.next().filter(|name| !name.is_empty())?.to_owned(),
        since: Duration::from_secs(fields.next()?.parse().ok()?),
        // Rights that are there and cannot be read do not count as all rights.
        rights: match fields.next() {
            Some(rights) => rights.parse().ok()?,
            None => Rights::default(),
        },
        until: match fields.next() {
            Some(until) => Some(Duration::from_secs(until.parse().ok()?)),
            None => None,
        },
    };
    fields.next().is_none().then_some(client)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Key;

    #[test]
    fn clients_are_enrolled_found_and_revoked() {
        let parent = tempfile::tempdir().unwrap();
        let folder = Folder::open(parent.path().join("node")).unwrap();
        let clients = Clients::of(&folder);
        assert!(clients.list().unwrap().is_empty());
        let [a, b, c] = ["a", "b", "c"].map(|name| Key::of(&folder, name).unwrap().fingerprint());
        let now = (Duration::from_millis(5500), Duration::from_secs(600));
        let all = Rights::default;
        let locked = folder.lock().unwrap();
        let first = clients.enrol(a, "laptop", all(), now, &locked).unwrap();
        assert_eq!((first.name.as_str(), first.since.as_secs()), ("laptop", 5));
        assert_eq!(
            clients
                .enrol(b, "laptop", all(), now, &locked)
                .unwrap()
                .name,
            "laptop-2"
        );
        assert_eq!(
            clients
                .enrol(c, "\t\u{1b}\n", all(), now, &locked)
                .unwrap()
                .name,
            "client"
        );
        // Again, with another name.
        assert_eq!(
            clients.enrol(b, "a\tb", all(), now, &locked).unwrap().name,
            "a b"
        );
        drop(locked);
        let names: Vec<_> = clients
            .list()
            .unwrap()
            .into_iter()
            .map(|c| c.name)
            .collect();
        assert_eq!(names, ["laptop", "client", "a b"]);
        assert_eq!(clients.find(a).unwrap(), Some(first.clone()));
        // It has said hello.
        let first = Client {
            until: None,
            ..first
        };
        assert_eq!(clients.greet(a, now.0).unwrap(), Some(first));
        let rights: Rights = "devices=cpu:0 peers=no".parse().unwrap();
        let granted = clients.grant("a b", rights.clone()).unwrap();
        assert_eq!((granted.fingerprint, &granted.rights), (b, &rights));
        assert_eq!(clients.find(b).unwrap(), Some(granted));
        assert!(clients.find(a).unwrap().unwrap().rights.are_all());
        assert!(clients.grant("nobody", rights).is_err());
        assert_eq!(clients.revoke("a b").unwrap().fingerprint, b);
        assert_eq!(clients.revoke(&a.to_string()).unwrap().name, "laptop");
        assert_eq!(clients.find(a).unwrap(), None);
        let error = clients.revoke("laptop").unwrap_err();
        assert!(
            error.to_string().contains("is not enrolled here"),
            "{error}"
        );
        assert_eq!(clients.list().unwrap().len(), 1);
    }

    #[test]
    fn no_client_is_taken_for_another_whose_fingerprint_is_its_name() {
        let parent = tempfile::tempdir().unwrap();
        let folder = Folder::open(parent.path().join("node")).unwrap();
        let clients = Clients::of(&folder);
        let [decoy, other] = ["a", "b"].map(|name| Key::of(&folder, name).unwrap().fingerprint());
        let locked = folder.lock().unwrap();
        let now = (Duration::from_secs(5), Duration::from_secs(10));
        for (key, name) in [(decoy, other.to_string()), (other, "other".to_owned())] {
            let enrolled = clients.enrol(key, &name, Rights::default(), now, &locked);
            enrolled.unwrap();
        }
        drop(locked);
        let rights: Rights = "peers=no".parse().unwrap();
        let granted = clients.grant(&other.to_string(), rights).unwrap();
        assert_eq!(granted.fingerprint, other);
        let revoked = clients.revoke(&other.to_string()).unwrap();
        assert_eq!(revoked.fingerprint, other);
        assert!(clients.revoke(&other.to_string()).is_err());
        assert_eq!(
            clients.revoke(&decoy.to_string()).unwrap().fingerprint,
            decoy
        );
    }

    #[test]
    fn who_does_not_say_hello_in_time_is_forgotten() {
        let parent = tempfile::tempdir().unwrap();
        let folder = Folder::open(parent.path().join("node")).unwrap();
        let clients = Clients::of(&folder);
        let [greets, comes_late, never] = [1, 2, 3].map(|byte| Fingerprint::of_bytes([byte; 32]));
        let seconds = Duration::from_secs;
        let enrol = |key, now| {
            let locked = folder.lock().unwrap();
            let times = (seconds(now), seconds(now + 600));
            let client = clients.enrol(key, "client", Rights::default(), times, &locked);
            client.unwrap().until
        };
        for key in [greets, comes_late, never] {
            assert_eq!(enrol(key, 1000), Some(seconds(1600)));
        }
        let greeted = clients.greet(greets, seconds(1599)).unwrap().unwrap();
        assert_eq!(greeted.until, None);
        assert_eq!(clients.present(seconds(1599)).unwrap().len(), 3);
        assert_eq!(clients.greet(comes_late, seconds(1600)).unwrap(), None);
        assert_eq!(clients.present(seconds(1600)).unwrap(), [greeted]);
        assert_eq!(clients.list().unwrap().len(), 1);
        // A client that has said hello stays, also if its next pairing ends half-way.
        assert_eq!(enrol(greets, 2000), None);
        assert_eq!(enrol(never, 2000), Some(seconds(2600)));
        assert_eq!(clients.present(seconds(9000)).unwrap().len(), 1);
    }

    #[test]
    fn a_line_that_names_no_client_is_an_error_and_not_left_out() {
        let parent = tempfile::tempdir().unwrap();
        let folder = Folder::open(parent.path().join("node")).unwrap();
        let key = Key::of(&folder, "a").unwrap().fingerprint();
        let locked = folder.lock().unwrap();
        let rights = ["", "everything", "all\tx", "all\t5\tx"]
            .map(|rights| format!("{key}\tlaptop\t5\t{rights}"));
        let lines = ["", "x\ty\t5", "\t\t", "laptop"].into_iter();
        for line in lines.chain(rights.iter().map(String::as_str)) {
            folder
                .write(FILE, format!("{line}\n").as_bytes(), &locked)
                .unwrap();
            let error = Clients::of(&folder).list().unwrap_err();
            assert!(error.to_string().contains("line 1"), "{error}");
        }
    }
}

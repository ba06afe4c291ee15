//! The folder that keeps compiled code.

use crate::{CACHE, Cache, Misused};
use std::ffi::OsString;
use std::path::PathBuf;

/// The folder for compiled code: `QUIPU_CACHE`, or else [`user_cache_root`]. There is none if that
/// variable is `off`.
///
/// # Errors
/// If `QUIPU_CACHE` makes no sense.
pub fn cache_root() -> Result<Option<PathBuf>, Misused> {
    root_of(std::env::var_os)
}

/// The folder for compiled code without `QUIPU_CACHE`: `quipu` in `XDG_CACHE_HOME`, or in
/// `~/.cache`. There is none if neither variable has a value.
#[must_use]
pub fn user_cache_root() -> Option<PathBuf> {
    user_root_of(std::env::var_os)
}

fn root_of(
    environment: impl Fn(&'static str) -> Option<OsString>,
) -> Result<Option<PathBuf>, Misused> {
    Ok(match CACHE.get_from(&environment)? {
        Some(Cache::Off) => None,
        Some(Cache::Folder(folder)) => Some(folder),
        None => user_root_of(environment),
    })
}

fn user_root_of(environment: impl Fn(&'static str) -> Option<OsString>) -> Option<PathBuf> {
    let folder = |name| {
        let value = environment(name).filter(|value| !value.is_empty());
        value.map(PathBuf::from)
    };
    let caches = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")));
    caches.map(|caches| caches.join("quipu"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_says_where_and_empty_values_are_none() {
        const VARIABLE: &str = CACHE.name();
        let with = |pairs: &'static [(&'static str, &'static str)]| {
            root_of(|name| {
                let pair = pairs.iter().find(|(known, _)| *known == name);
                pair.map(|(_, value)| OsString::from(value))
            })
        };
        assert_eq!(with(&[(VARIABLE, "off"), ("HOME", "/h")]), Ok(None));
        assert_eq!(with(&[]), Ok(None));
        assert_eq!(with(&[("XDG_CACHE_HOME", ""), ("HOME", "")]), Ok(None));
        for (pairs, path) in [
            (&[(VARIABLE, "/c"), ("HOME", "/h")][..], "/c"),
            (&[(VARIABLE, ""), ("HOME", "/h")], "/h/.cache/quipu"),
            (&[("XDG_CACHE_HOME", "/x"), ("HOME", "/h")], "/x/quipu"),
            (&[("XDG_CACHE_HOME", ""), ("HOME", "/h")], "/h/.cache/quipu"),
            (&[("HOME", "/h")], "/h/.cache/quipu"),
        ] {
            assert_eq!(with(pairs), Ok(Some(PathBuf::from(path))));
        }
    }
}

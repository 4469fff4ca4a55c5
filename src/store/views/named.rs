//! Finding an event by what people call it: the provider's id of the delivery, one of the keys by
//! which a second copy is recognised, or such a key without the family and the scope in front.
//!
//! A key is `<family>:<scope>:<rest>`. Nobody knows the scopes by heart (a GitHub host, a Jira
//! site, a Slack app or team), and there are few of them; so the table of seen keys is stepped
//! through from scope to scope, and each is asked for the rest.

use std::collections::BTreeSet;

use rusqlite::{Connection, params};

use crate::store::error::StoreError;
use crate::store::read;

/// What keys begin with, and what may stand between the scope and the id of a delivery.
const FAMILIES: [(&str, &str); 4] = [
    ("gh", ""),
    ("github", "delivery:"),
    ("jira", "delivery:"),
    ("slack", ""),
];
/// More scopes of a family than any gateway has.
const SCOPES_MAX: usize = 1_000;

/// The events that a name means by its keys; their rows may be gone.
pub(super) fn ids(connection: &Connection, name: &str) -> Result<BTreeSet<i64>, StoreError> {
    let mut found: BTreeSet<i64> = seen(connection, name)?.into_iter().collect();
    for (family, between) in FAMILIES {
        let mut bound = format!("{family}:");
        let end = format!("{family};");
        for _ in 0..SCOPES_MAX {
            let Some(scope) = next_scope(connection, &bound, &end)? else {
                break;
            };
            found.extend(seen(connection, &format!("{scope}:{name}"))?);
            if !between.is_empty() {
                found.extend(seen(connection, &format!("{scope}:{between}{name}"))?);
            }
            // The character behind the colon: past all keys of this scope.
            bound = format!("{scope};");
        }
    }
    Ok(found)
}

fn seen(connection: &Connection, key: &str) -> Result<Option<i64>, StoreError> {
    read::first(
        connection,
        "SELECT event_id FROM seen_keys WHERE key = ?1",
        params![key],
        |row| row.get(0),
        "look for a key",
    )
}

/// The family and scope of the first key behind a bound.
fn next_scope(
    connection: &Connection,
    bound: &str,
    end: &str,
) -> Result<Option<String>, StoreError> {
    let key: Option<String> = read::first(
        connection,
        "SELECT key FROM seen_keys WHERE key > ?1 AND key < ?2 ORDER BY key LIMIT 1",
        params![bound, end],
        |row| row.get(0),
        "look for the next key",
    )?;
    Ok(key.as_deref().and_then(scope_of))
}

/// `family:scope` of a key; a host may have a port.
fn scope_of(key: &str) -> Option<String> {
    let mut parts = key.splitn(4, ':');
    let (family, host) = (parts.next()?, parts.next()?);
    let is_port = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    match parts.next().filter(|part| is_port(part)) {
        Some(port) if parts.next().is_some() => Some(format!("{family}:{host}:{port}")),
        Some(_) | None => Some(format!("{family}:{host}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_is_a_host_with_its_port_or_whatever_stands_second() {
        for (key, scope) in [
            ("gh:github.com:issue_comment:9001:created", "gh:github.com"),
            ("github:ghe.acme:8443:delivery:g1", "github:ghe.acme:8443"),
            (
                "jira:acme.local:8080:comment:1:created",
                "jira:acme.local:8080",
            ),
            ("slack:A0123:Ev0123", "slack:A0123"),
            ("slack:T0123:1700000000", "slack:T0123"),
        ] {
            assert_eq!(scope_of(key).unwrap(), scope);
        }
        assert_eq!(scope_of("alone"), None);
    }
}

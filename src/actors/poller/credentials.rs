//! What proves to an API who asks. Looked up for each request, held nowhere, shown nowhere.

use awc::ClientRequest;

use super::failure::Failure;
use crate::config::{EnvName, Environment, Secret};

/// Where the secrets of an API come from, and how they are sent.
#[derive(Debug, Clone)]
pub struct Credentials {
    environment: Environment,
    scheme: Scheme,
}

#[derive(Debug, Clone)]
enum Scheme {
    Bearer { token: EnvName },
    Basic { user: EnvName, password: EnvName },
}

impl Credentials {
    /// A token, sent as `Authorization: Bearer`.
    #[must_use]
    pub const fn bearer(environment: Environment, token: EnvName) -> Self {
        Self {
            environment,
            scheme: Scheme::Bearer { token },
        }
    }

    /// A name and a password or token, sent as `Authorization: Basic`.
    #[must_use]
    pub const fn basic(environment: Environment, user: EnvName, password: EnvName) -> Self {
        Self {
            environment,
            scheme: Scheme::Basic { user, password },
        }
    }

    /// Adds them to a request.
    pub(super) fn sign(&self, request: ClientRequest) -> Result<ClientRequest, Failure> {
        match &self.scheme {
            Scheme::Bearer { token } => {
                let secret = self.environment.secret(token);
                Ok(request.bearer_auth(exposed(token, &secret)?))
            }
            Scheme::Basic { user, password } => {
                let (name, secret) = (
                    self.environment.secret(user),
                    self.environment.secret(password),
                );
                let (name, secret) = (exposed(user, &name)?, exposed(password, &secret)?);
                Ok(request.basic_auth(name, secret))
            }
        }
    }
}

/// The value, if a header can hold it; else it counts as not set.
fn exposed<'a>(variable: &EnvName, secret: &'a Secret) -> Result<&'a str, Failure> {
    let is_sendable = |value: &&str| value.bytes().all(|b| (0x20..0x7f).contains(&b));
    secret
        .expose()
        .filter(is_sendable)
        .ok_or_else(|| Failure::MissingSecret {
            variable: variable.to_string(),
        })
}

//! The fields that say which work item a payload is about, and who did it; `*` is any item of a
//! list. Damage to any other field must change neither.

/// What a provider's payloads say where.
pub(crate) struct Naming {
    /// Names the work item, or says what kind of thing the payload is.
    pub(crate) work: &'static [&'static str],
    /// Names the actor.
    pub(crate) actor: &'static [&'static str],
}

pub(crate) const GITHUB: Naming = Naming {
    work: &[
        "repository",
        "repository.full_name",
        "repository.html_url",
        "issue",
        "issue.number",
        "pull_request",
        "pull_request.number",
    ],
    actor: &["sender", "sender.login"],
};

pub(crate) const JIRA: Naming = Naming {
    work: &["issue", "issue.key", "issue.self"],
    actor: &["user"],
};

pub(crate) const SLACK: Naming = Naming {
    work: &["type", "event"],
    actor: &["user"],
};

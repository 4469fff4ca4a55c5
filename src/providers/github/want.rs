//! The fields that are read of a payload; everything else is skipped.

use crate::providers::lenient::{Fields, Want};

const ID: Fields = &[("id", Want::Leaf)];
const USER: Want = Want::Object(&[("login", Want::Leaf)]);
const PULL_REQUESTS: Want = Want::Items(&[
    ("number", Want::Leaf),
    ("base", Want::Object(&[("repo", Want::Object(ID))])),
]);

const WORK_ITEM: Fields = &[
    ("number", Want::Leaf),
    ("html_url", Want::Leaf),
    ("updated_at", Want::Leaf),
    ("closed_at", Want::Leaf),
    ("user", USER),
    ("milestone", Want::Object(ID)),
    ("head", Want::Object(&[("sha", Want::Leaf)])),
];

const SAID: Fields = &[
    ("id", Want::Leaf),
    ("updated_at", Want::Leaf),
    ("submitted_at", Want::Leaf),
    ("user", USER),
];

const CHECKED: Fields = &[
    ("id", Want::Leaf),
    ("status", Want::Leaf),
    ("conclusion", Want::Leaf),
    ("completed_at", Want::Leaf),
    ("updated_at", Want::Leaf),
    ("run_attempt", Want::Leaf),
    ("head_sha", Want::Leaf),
    ("pull_requests", PULL_REQUESTS),
    (
        "check_suite",
        Want::Object(&[("head_sha", Want::Leaf), ("pull_requests", PULL_REQUESTS)]),
    ),
];

/// What an edit replaced; its exact JSON is hashed. A moved repository's old name is in it.
const CHANGES: Fields = &[
    (
        "repository",
        Want::Object(&[("name", Want::Object(&[("from", Want::Leaf)]))]),
    ),
    (
        "owner",
        Want::Object(&[(
            "from",
            Want::Object(&[("user", USER), ("organization", USER)]),
        )]),
    ),
];

/// A payload of any kind.
pub(super) static PAYLOAD: Want = Want::Object(&[
    ("action", Want::Leaf),
    (
        "repository",
        Want::Object(&[
            ("id", Want::Leaf),
            ("full_name", Want::Leaf),
            ("html_url", Want::Leaf),
        ]),
    ),
    ("sender", USER),
    ("issue", Want::Object(WORK_ITEM)),
    ("pull_request", Want::Object(WORK_ITEM)),
    ("comment", Want::Object(SAID)),
    ("review", Want::Object(SAID)),
    ("label", Want::Object(ID)),
    ("assignee", Want::Object(ID)),
    ("milestone", Want::Object(ID)),
    ("type", Want::Object(ID)),
    ("requested_reviewer", Want::Object(ID)),
    ("requested_team", Want::Object(ID)),
    ("after", Want::Leaf),
    ("changes", Want::Whole(CHANGES)),
    ("check_run", Want::Object(CHECKED)),
    ("check_suite", Want::Object(CHECKED)),
    ("workflow_run", Want::Object(CHECKED)),
    ("workflow_job", Want::Object(CHECKED)),
    // A status is no object of its own: the payload is.
    ("id", Want::Leaf),
    ("sha", Want::Leaf),
]);

//! The page for people: one document with its style and its script in it, which asks the JSON
//! routes. It needs no other request, and its policy lets it make none elsewhere.

use std::sync::LazyLock;

use actix_web::HttpResponse;
use actix_web::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

const SKELETON: &str = include_str!("dashboard/page.html");
const STYLE: &str = include_str!("dashboard/style.css");
/// One script: what a file uses of another one is there when it runs.
const SCRIPT: &str = concat!(
    "\"use strict\";\n",
    include_str!("dashboard/dom.js"),
    include_str!("dashboard/words.js"),
    include_str!("dashboard/api.js"),
    include_str!("dashboard/plots.js"),
    include_str!("dashboard/sections.js"),
    include_str!("dashboard/dead.js"),
    include_str!("dashboard/story.js"),
    include_str!("dashboard/main.js"),
);

struct Page {
    text: String,
    policy: String,
}

static PAGE: LazyLock<Page> = LazyLock::new(|| Page {
    text: SKELETON
        .replace("{{style}}", STYLE)
        .replace("{{script}}", SCRIPT),
    policy: policy(),
});

/// Only this style and this script, only this server, and no text taken for markup.
fn policy() -> String {
    format!(
        "default-src 'self'; script-src '{}'; style-src '{}'; img-src data:; connect-src 'self'; \
         object-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; \
         require-trusted-types-for 'script'; trusted-types 'none'",
        digest(SCRIPT),
        digest(STYLE)
    )
}

fn digest(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(text)))
}

pub(super) async fn page() -> HttpResponse {
    HttpResponse::Ok()
        .content_type("text/html; charset=utf-8")
        .insert_header((CONTENT_SECURITY_POLICY, PAGE.policy.as_str()))
        .insert_header((CACHE_CONTROL, "no-cache"))
        .insert_header((HeaderName::from_static("referrer-policy"), "no-referrer"))
        .insert_header((HeaderName::from_static("x-content-type-options"), "nosniff"))
        .body(PAGE.text.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_holds_its_style_and_its_script_once_and_nothing_from_elsewhere() {
        let text = &PAGE.text;
        for tag in ["<style>", "</style>", "<script", "</script>"] {
            assert_eq!(text.matches(tag).count(), 1, "{tag}");
        }
        assert!(!text.contains("{{"), "a part is missing");
        for elsewhere in ["src=\"", "@import", "url(", "https:", "import("] {
            assert!(!text.contains(elsewhere), "{elsewhere}");
        }
    }

    /// The policy forbids it in browsers that know trusted types; this is for the others.
    #[test]
    fn no_script_makes_markup_of_a_text() {
        for way in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "new Function",
            "DOMParser",
            "createContextualFragment",
            "srcdoc",
        ] {
            assert!(!SCRIPT.contains(way), "{way}");
        }
    }
}

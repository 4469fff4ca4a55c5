mod github_limits;
mod github_lists;
mod github_presence;
mod github_twins;
mod jira;
mod support;

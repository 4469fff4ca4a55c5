//! Paths as people read them.

use std::path::{Component, Path, PathBuf};

/// The same path without what leads nowhere: `.`, a doubled `/`, a directory that `..` leaves
/// again.
///
/// A symbolic link stays with its `..`, because that leads to where the link points.
#[must_use]
pub fn tidied(path: &Path) -> PathBuf {
    let mut tidy = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir if is_root(&tidy) => {}
            Component::ParentDir if is_left_by_its_parent(&tidy) => {
                tidy.pop();
            }
            Component::Prefix(_)
            | Component::RootDir
            | Component::ParentDir
            | Component::Normal(_) => tidy.push(component),
        }
    }
    if tidy.as_os_str().is_empty() && !path.as_os_str().is_empty() {
        tidy.push(Component::CurDir);
    }
    tidy
}

fn is_root(path: &Path) -> bool {
    path.has_root() && path.parent().is_none()
}

fn is_left_by_its_parent(path: &Path) -> bool {
    let ends_in_a_name = matches!(path.components().next_back(), Some(Component::Normal(_)));
    let is_link = path
        .symlink_metadata()
        .is_ok_and(|found| found.is_symlink());
    ends_in_a_name && !is_link
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leads_nowhere_is_left_out() {
        for (path, tidy) in [
            ("/a/../b//c", "/b/c"),
            ("/a/./b/", "/a/b"),
            ("/../a", "/a"),
            ("/a/b/../../..", "/"),
            ("./a", "a"),
            ("a/..", "."),
            ("../a", "../a"),
            ("a/../../b", "../b"),
            (".", "."),
            ("", ""),
        ] {
            let (found, wanted) = (tidied(Path::new(path)), Path::new(tidy));
            assert_eq!(found.as_os_str(), wanted.as_os_str(), "{path}");
        }
    }

    #[test]
    fn a_link_keeps_the_step_back_from_where_it_points() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        std::fs::create_dir_all(root.join("far/away")).unwrap();
        std::os::unix::fs::symlink(root.join("far/away"), root.join("near")).unwrap();
        let path = root.join("near/../x");
        assert_eq!(tidied(&path), path);
        assert_eq!(tidied(&root.join("far/away/../x")), root.join("far/x"));
    }
}

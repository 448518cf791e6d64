//! The memory available to this process, including the page cache. Control groups may limit it below that of the host.

use std::fs::read_to_string;
use std::path::{Path, PathBuf};

const GROUPS: &str = "/sys/fs/cgroup";
/// Files and fields of cgroups(7), for version 2 and version 1.
const LIMITS: [&str; 2] = ["memory.max", "memory.limit_in_bytes"];
const UNRECLAIMABLE: [&str; 2] = ["anon", "total_rss"];

/// Returns the available bytes, or 0 if unknown.
pub fn available() -> u64 {
    let host = field(&text("/proc/meminfo"), "MemAvailable:").unwrap_or(0) << 10;
    let groups = group_directories(&text("/proc/self/cgroup"));
    groups.iter().filter_map(|group| remaining(group)).fold(host, u64::min)
}

/// Returns the directories of the process's control groups and of all groups above them. `own` is the text of
/// `/proc/self/cgroup`.
fn group_directories(own: &str) -> Vec<PathBuf> {
    let mut directories = Vec::new();
    for line in own.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let top = match controllers {
            "" => Path::new(GROUPS).to_path_buf(),
            _ if controllers.split(',').any(|name| name == "memory") => Path::new(GROUPS).join("memory"),
            _ => continue,
        };
        let group = top.join(path.trim_start_matches('/'));
        directories.extend(group.ancestors().take_while(|directory| directory.starts_with(&top)).map(Into::into));
    }
    directories
}

/// Returns the bytes that a group may still use; `None` if it has no limit.
fn remaining(group: &Path) -> Option<u64> {
    let limit: u64 = LIMITS.iter().find_map(|name| text(group.join(name)).trim().parse().ok())?;
    let stat = text(group.join("memory.stat"));
    let unreclaimable = UNRECLAIMABLE.iter().find_map(|name| field(&stat, name)).unwrap_or(0);
    Some(limit.saturating_sub(unreclaimable))
}

fn text(path: impl AsRef<Path>) -> String {
    read_to_string(path).unwrap_or_default()
}

/// Returns the number after `word`, which begins a line.
fn field(text: &str, word: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(word)?.strip_prefix([' ', '\t']));
    rest?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn available_memory_of_the_system_and_of_a_group() {
        assert!(available() > 1 << 20);
        let group = tempfile::tempdir().unwrap();
        let put = |name, text| std::fs::write(group.path().join(name), text).unwrap();
        assert_eq!(remaining(group.path()), None);
        put("memory.max", "max\n");
        assert_eq!(remaining(group.path()), None);
        put("memory.max", "1000\n");
        put("memory.stat", "file 5\nanon_thp 7\nanon 300\n");
        assert_eq!(remaining(group.path()), Some(700));
    }

    #[test]
    fn groups_of_both_versions() {
        let own = "4:memory:/a/b\n3:cpu,cpuacct:/c\n0::/d\n";
        let wanted = ["memory/a/b", "memory/a", "memory", "d", ""];
        let wanted: Vec<_> = wanted.iter().map(|name| Path::new(GROUPS).join(name)).collect();
        assert_eq!(group_directories(own), wanted);
    }
}

//! Where Postgres's programs are on this machine, and who may run them.
//!
//! Owns the search; runs nothing but `postgres --version`.

use std::{
    env, fs, io,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use crate::sandbox::SandboxError;

/// The oldest major version that serves.
const OLDEST: u32 = 15;

/// Folders that hold a folder for each version, and what lies between that and the programs.
const VERSIONED: [(&str, &str, &str); 5] = [
    ("/usr/lib/postgresql", "", "bin"),
    ("/usr", "pgsql-", "bin"),
    ("/opt/homebrew/opt", "postgresql", "bin"),
    ("/usr/local/opt", "postgresql", "bin"),
    ("/Applications/Postgres.app/Contents/Versions", "", "bin"),
];

/// Folders that hold the programs themselves.
const PLAIN: [&str; 3] = ["/usr/local/pgsql/bin", "/run/current-system/sw/bin", "/usr/libexec/postgresql"];

/// Postgres's programs, all of one version.
#[derive(Clone, Debug)]
pub(super) struct Binaries {
    folder: PathBuf,
    major: u32,
}

impl Binaries {
    /// The programs to use: those in PATH, else the newest in the places where distributions put them; of that major
    /// version, if one is given.
    pub(super) fn find(wanted: Option<u32>) -> Result<Self, SandboxError> {
        let in_path = env::var_os("PATH").map(|path| env::split_paths(&path).collect()).unwrap_or_default();
        Self::choose(Self::among(in_path), Self::among(places()), wanted)
    }

    fn choose(in_path: Vec<Self>, in_places: Vec<Self>, wanted: Option<u32>) -> Result<Self, SandboxError> {
        let mut newest_first = in_places;
        newest_first.sort_by_key(|binaries| std::cmp::Reverse(binaries.major));
        let all: Vec<Self> = in_path.into_iter().chain(newest_first).collect();
        let fits = |binaries: &&Self| binaries.major >= OLDEST && wanted.is_none_or(|major| binaries.major == major);
        if let Some(found) = all.iter().find(fits) {
            return Ok(found.clone());
        }
        let seen: Vec<String> =
            all.iter().map(|binaries| format!("{} in {}", binaries.major, binaries.folder.display())).collect();
        let found = if seen.is_empty() { "is not installed".into() } else { format!("only found {}", seen.join(", ")) };
        Err(SandboxError::PostgresMissing { found })
    }

    fn among(folders: Vec<PathBuf>) -> Vec<Self> {
        folders.into_iter().filter_map(|folder| Some(Self { major: major_version(&folder)?, folder })).collect()
    }

    /// The major version.
    pub(super) fn major(&self) -> u32 {
        self.major
    }

    /// A program, by its path.
    pub(super) fn path(&self, program: &str) -> PathBuf {
        self.folder.join(program)
    }
}

/// Makes a command for a program of Postgres's: as that account, in that folder, without settings of the surroundings
/// that would change what it does.
pub(super) fn prepare(mut command: Command, account: Option<&Account>, folder: &Path) -> Command {
    let foreign = |name: &str| name.starts_with("PG") || name.starts_with("LC_") || name == "LANG";
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(foreign) {
            command.env_remove(name);
        }
    }
    command.env("LC_ALL", "C").current_dir(folder);
    if let Some(account) = account {
        command.uid(account.uid).gid(account.gid);
    }
    command
}

/// Runs a command to its end; anything but success is an error with what it said.
pub(super) fn run(program: &'static str, mut command: Command) -> Result<Output, SandboxError> {
    let failed = |output: String| SandboxError::Program { program, output };
    let output = command.output().map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(output);
    }
    let said = [output.stdout, output.stderr].concat();
    Err(failed(format!("{}: {}", output.status, String::from_utf8_lossy(&said).trim())))
}

fn places() -> Vec<PathBuf> {
    let versioned = VERSIONED.iter().flat_map(|&(parent, prefix, rest)| {
        let entries = fs::read_dir(parent).into_iter().flatten().flatten();
        entries
            .filter(move |entry| entry.file_name().to_string_lossy().starts_with(prefix))
            .map(move |e| e.path().join(rest))
    });
    versioned.chain(PLAIN.iter().map(PathBuf::from)).collect()
}

fn major_version(folder: &Path) -> Option<u32> {
    let needed = ["postgres", "initdb", "createdb", "psql"];
    if needed.iter().any(|program| !folder.join(program).is_file()) {
        return None;
    }
    let output = Command::new(folder.join("postgres")).arg("--version").output().ok()?;
    parse_version(&String::from_utf8_lossy(&output.stdout))
}

/// Reads `postgres (PostgreSQL) 15.14 (Debian …)`, `… 18beta1` too.
fn parse_version(line: &str) -> Option<u32> {
    let number = line.split_once("(PostgreSQL)")?.1.trim_start();
    number.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// The account that Postgres runs as when this program runs as root, which Postgres refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Account {
    pub(super) name: String,
    pub(super) uid: u32,
    pub(super) gid: u32,
}

impl Account {
    /// The account to run as: none but one's own unless that is root, else `postgres` or `nobody`.
    pub(super) fn choose() -> Result<Option<Self>, SandboxError> {
        if !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        let path = Path::new("/etc/passwd");
        let failed = |source| SandboxError::Folder { path: path.into(), source };
        let accounts = fs::read_to_string(path).map_err(failed)?;
        let found = ["postgres", "_postgres", "nobody"].iter().find_map(|name| Self::parse(&accounts, name));
        let missing = || failed(io::Error::other("has neither an account postgres nor nobody to run Postgres as"));
        found.map(Some).ok_or_else(missing)
    }

    fn parse(accounts: &str, name: &str) -> Option<Self> {
        accounts.lines().find_map(|line| {
            let fields: Vec<&str> = line.split(':').collect();
            let [found, _, uid, gid, ..] = fields[..] else { return None };
            (found == name)
                .then(|| Some(Self { name: name.to_owned(), uid: uid.parse().ok()?, gid: gid.parse().ok()? }))?
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binaries(major: u32, folder: &str) -> Binaries {
        Binaries { folder: folder.into(), major }
    }

    #[test]
    fn versions_are_read_as_the_packagers_write_them() {
        let table = [
            ("postgres (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)\n", Some(15)),
            ("postgres (PostgreSQL) 18beta1", Some(18)),
            ("postgres (PostgreSQL) 9.6.24", Some(9)),
            ("postgres: not found", None),
        ];
        for (line, major) in table {
            assert_eq!(parse_version(line), major, "{line}");
        }
    }

    #[test]
    fn path_comes_first_then_the_newest_and_nothing_too_old() {
        let places = || vec![binaries(15, "/a"), binaries(17, "/b"), binaries(13, "/c")];
        let chosen = |path: Vec<Binaries>, wanted| Binaries::choose(path, places(), wanted).map(|b| b.major);
        assert_eq!(chosen(vec![binaries(16, "/p")], None).expect("found"), 16);
        assert_eq!(chosen(vec![binaries(14, "/p")], None).expect("found"), 17);
        assert_eq!(chosen(vec![], Some(15)).expect("found"), 15);
        assert!(chosen(vec![], Some(13)).is_err());
    }

    #[test]
    fn what_is_missing_is_said_with_the_command_that_installs_it() {
        let none = Binaries::choose(vec![], vec![], None).expect_err("there is none").to_string();
        assert!(none.contains("is not installed") && none.contains("apt-get install postgresql"), "{none}");
        let old = Binaries::choose(vec![binaries(13, "/p")], vec![], None).expect_err("too old").to_string();
        assert!(old.contains("only found 13 in /p"), "{old}");
    }

    #[test]
    fn accounts_are_read_from_the_password_file() {
        let file = "root:x:0:0:root:/root:/bin/sh\npostgres:x:101:104:,,,:/var/lib/postgresql:/bin/bash\nbroken\n";
        let account = Account { name: "postgres".into(), uid: 101, gid: 104 };
        assert_eq!(Account::parse(file, "postgres"), Some(account));
        assert_eq!(Account::parse(file, "nobody"), None);
    }
}

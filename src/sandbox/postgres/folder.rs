//! The folder of a cluster: data, password, log, and the lock that says whose it is.
//!
//! Owns its layout and its permissions; starts nothing.

use std::{
    env,
    fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use super::binaries::Account;
use crate::sandbox::SandboxError;

/// What the names of temporary folders begin with.
const PREFIX: &str = "postrider-postgres-";

/// A temporary folder whose lock is younger may be one that another program is just making.
const BEING_MADE: Duration = Duration::from_secs(60);

/// How often the lock of a given folder is tried, and the pause after each try.
const LOCK_TRIES: u32 = 10;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// A cluster's folder, held by this process alone.
pub(super) struct Folder {
    path: PathBuf,
    temporary: bool,
    /// Held as long as the folder is used; the system lets go of it when the process ends, however it ends.
    _lock: File,
}

impl Folder {
    /// Takes the folder, or a new one in the system's temporary folder.
    pub(super) fn take(given: Option<&Path>, account: Option<&Account>) -> Result<Self, SandboxError> {
        let temporary = given.is_none();
        let path = match given {
            Some(dir) => std::path::absolute(dir).map_err(|source| failed(dir, source))?,
            None => {
                remove_leftovers();
                env::temp_dir().join(format!("{PREFIX}{}", random_hex(8)))
            }
        };
        // Postgres must be able to pass through it when it runs as another account.
        let mode = if account.is_some() { 0o711 } else { 0o700 };
        let mut builder = DirBuilder::new();
        builder.recursive(!temporary).mode(mode).create(&path).map_err(|source| failed(&path, source))?;
        if account.is_some() {
            let_pass(&path).map_err(|source| failed(&path, source))?;
        }
        let lock = match lock(&path, LOCK_TRIES).map_err(|source| failed(&path, source))? {
            Some(lock) => lock,
            None => return Err(SandboxError::InUse { folder: path }),
        };
        Ok(Self { path, temporary, _lock: lock })
    }

    /// The folder itself.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it goes when it is dropped.
    pub(super) fn is_temporary(&self) -> bool {
        self.temporary
    }

    /// The cluster's data.
    pub(super) fn data(&self) -> PathBuf {
        self.path.join("data")
    }

    /// Where a cluster is made before it becomes the data, so that a half-made one is never taken for one.
    pub(super) fn unfinished(&self) -> PathBuf {
        self.path.join("data.new")
    }

    /// The server's log.
    pub(super) fn log(&self) -> PathBuf {
        self.path.join("postgres.log")
    }

    /// The file with the password.
    pub(super) fn password_file(&self) -> PathBuf {
        self.path.join("password")
    }

    /// The major version that made the data, if there is data.
    pub(super) fn made_by(&self) -> Option<String> {
        fs::read_to_string(self.data().join("PG_VERSION")).ok().map(|version| version.trim().to_owned())
    }

    /// The password: the one of the folder, or a new one.
    pub(super) fn password(&self, account: Option<&Account>) -> Result<String, SandboxError> {
        let path = self.password_file();
        if self.made_by().is_some() {
            return fs::read_to_string(&path).map_err(|source| failed(&path, source));
        }
        let password = random_hex(16);
        let write = || {
            let mut options = OpenOptions::new();
            let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&path)?;
            file.write_all(password.as_bytes())?;
            give(&path, account)
        };
        write().map_err(|source| failed(&path, source))?;
        Ok(password)
    }

    /// Makes an empty place for a new cluster, owned by the account.
    pub(super) fn clear_unfinished(&self, account: Option<&Account>) -> Result<(), SandboxError> {
        let path = self.unfinished();
        let make = || {
            if path.exists() {
                fs::remove_dir_all(&path)?;
            }
            DirBuilder::new().mode(0o700).create(&path)?;
            give(&path, account)
        };
        make().map_err(|source| failed(&path, source))
    }

    /// Makes the finished cluster the folder's data.
    pub(super) fn finish(&self) -> Result<(), SandboxError> {
        fs::rename(self.unfinished(), self.data()).map_err(|source| failed(&self.data(), source))
    }

    /// The log, to write to.
    pub(super) fn open_log(&self) -> Result<File, SandboxError> {
        let path = self.log();
        let opened = OpenOptions::new().append(true).create(true).mode(0o600).open(&path);
        opened.map_err(|source| failed(&path, source))
    }

    /// The last lines of the log.
    pub(super) fn end_of_log(&self) -> String {
        let log = fs::read(self.log()).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(10)..].join("\n")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.temporary {
            // What cannot be removed now is removed by the next start.
            fs::remove_dir_all(&self.path).unwrap_or_default();
        }
    }
}

fn failed(path: &Path, source: io::Error) -> SandboxError {
    SandboxError::Folder { path: path.into(), source }
}

/// Locks the folder; `None` if somebody else has it.
///
/// A program that this one is just about to start shares what is open here until it runs, so a lock that was given up
/// may seem to be held for a moment.
fn lock(folder: &Path, tries: u32) -> io::Result<Option<File>> {
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(folder.join("lock"))?;
    for _ in 0..tries {
        match file.try_lock() {
            Ok(()) => return Ok(Some(file)),
            Err(TryLockError::WouldBlock) => thread::sleep(LOCK_PAUSE),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Ok(None)
}

/// Lets other accounts pass through the folder if it is still empty, so that nothing that was there is opened to them.
fn let_pass(folder: &Path) -> io::Result<()> {
    if fs::read_dir(folder)?.next().is_some() {
        return Ok(());
    }
    let mode = fs::metadata(folder)?.permissions().mode();
    fs::set_permissions(folder, Permissions::from_mode(mode | 0o011))
}

fn give(path: &Path, account: Option<&Account>) -> io::Result<()> {
    account.map_or(Ok(()), |account| chown(path, Some(account.uid), Some(account.gid)))
}

/// Removes temporary folders whose program was killed. Whatever cannot be removed stays.
fn remove_leftovers() {
    let entries = fs::read_dir(env::temp_dir()).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX)) {
        // Only real folders of our own that nobody else may write to: in them no trap can be laid.
        let ours = entry.metadata().is_ok_and(|found| {
            found.is_dir()
                && found.uid() == rustix::process::geteuid().as_raw()
                && found.permissions().mode() & 0o22 == 0
        });
        if ours
            && is_older(&entry.path().join("lock"), BEING_MADE)
            && let Ok(Some(_lock)) = lock(&entry.path(), 1)
            && !entry.path().join("data/postmaster.pid").exists()
        {
            fs::remove_dir_all(entry.path()).unwrap_or_default();
        }
    }
}

fn is_older(path: &Path, age: Duration) -> bool {
    let modified = fs::metadata(path).and_then(|found| found.modified());
    modified.is_ok_and(|at| at.elapsed().is_ok_and(|elapsed| elapsed > age))
}

/// Random bytes as hexadecimal digits.
fn random_hex(bytes: usize) -> String {
    (0..bytes).map(|_| format!("{:02x}", rand::random::<u8>())).collect()
}

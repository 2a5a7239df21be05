//! One child process and the thread that is its parent.
//!
//! Owns its signals and its end; does not know what the process is.

use std::{
    io,
    os::unix::process::ExitStatusExt,
    process::{Child, Command, ExitStatus},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc},
    thread,
    time::Duration,
};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

/// A child process with a thread of its own as its parent.
///
/// Linux sends a parent's death signal when the thread that made the child ends, not the process. A thread of an
/// async runtime may end at any time; this one waits until the child has ended.
pub(super) struct Keeper {
    pid: Pid,
    end: Mutex<Option<ExitStatus>>,
    ended: Condvar,
}

impl Keeper {
    /// Starts the process.
    pub(super) fn spawn(mut command: Command) -> io::Result<Arc<Self>> {
        let (tell, told) = mpsc::channel();
        thread::Builder::new().name("postgres-keeper".to_owned()).spawn(move || {
            let child = match command.spawn() {
                Ok(child) => child,
                Err(error) => return tell.send(Err(error)).unwrap_or_default(),
            };
            let keeper = Arc::new(Self { pid: Pid::from_child(&child), end: Mutex::new(None), ended: Condvar::new() });
            // Whoever asked waits for it, and what it waits with is gone only if that thread panicked.
            tell.send(Ok(keeper.clone())).unwrap_or_default();
            keeper.wait_for_end(child);
        })?;
        told.recv().unwrap_or_else(|_| Err(io::Error::other("the thread that starts processes ended")))
    }

    /// The process id.
    pub(super) fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// How it ended; `None` while it runs.
    pub(super) fn end(&self) -> Option<ExitStatus> {
        *self.lock()
    }

    /// Sends a signal, unless the process has ended.
    pub(super) fn signal(&self, signal: Signal) {
        let end = self.lock();
        if end.is_none() {
            // The id cannot be another process's yet: it is given free only under this lock. What can fail is a
            // signal to a process that has just ended.
            kill_process(self.pid, signal).unwrap_or_default();
        }
    }

    /// Waits for the end at most that long; says whether it has ended.
    pub(super) fn wait(&self, longest: Duration) -> bool {
        let waited = self.ended.wait_timeout_while(self.lock(), longest, |end| end.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.is_some()
    }

    fn wait_for_end(&self, mut child: Child) {
        // Leaves the process a zombie, so that its id stays taken until it is marked as ended.
        while let Err(error) = waitid(WaitId::Pid(self.pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
            if error != rustix::io::Errno::INTR {
                break;
            }
        }
        let mut end = self.lock();
        *end = Some(child.wait().unwrap_or(ExitStatus::from_raw(0)));
        self.ended.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Option<ExitStatus>> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

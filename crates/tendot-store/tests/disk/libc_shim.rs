//! Replacements of the C library's functions that change files; they record calls, and inject errors.
//!
//! LMDB is linked into this program, so its calls and those of the standard library arrive here. Only calls for files under
//! one directory are recorded, for one test at a time.

#![allow(unsafe_code, reason = "functions of the C library are replaced")]

use std::ffi::{CStr, OsStr, c_char, c_int, c_uint, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use libc::{iovec, mode_t, off_t, size_t, ssize_t};

/// Recorded change of a file or directory.
#[derive(Clone, Debug)]
pub(crate) enum DiskEvent {
    /// Bytes of a file, by its number; durable when the call returns if the file was opened with `O_DSYNC`.
    Write { file: u64, at: u64, bytes: Vec<u8>, is_durable: bool },
    /// New length of a file.
    Truncate { file: u64, length: u64 },
    /// All bytes of a file so far are durable when the call returns.
    Sync { file: u64 },
    /// New file.
    Create { path: PathBuf, file: u64 },
    /// Rename, replacing a file of that name.
    Rename { from: PathBuf, to: PathBuf },
    /// Hard link.
    Link { from: PathBuf, to: PathBuf },
    /// Removal of a file or an empty directory.
    Unlink { path: PathBuf },
    /// New directory.
    CreateDir { path: PathBuf },
    /// All names in a directory so far are durable when the call returns.
    SyncDir { path: PathBuf },
    /// A number from the test.
    Mark(usize),
}

/// Kind of file-system call that can be made to fail.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum DiskCall {
    Write,
    /// To a file that was opened with `O_DSYNC`: the meta page.
    DurableWrite,
    Sync,
}

/// Records file-system calls and injects errors.
struct Recorder {
    root: PathBuf,
    events: Vec<DiskEvent>,
    fault: Option<InjectedFault>,
    calls: u32,
    failed: Option<DiskCall>,
}

/// Error to inject, and at which call.
#[derive(Clone, Copy)]
struct InjectedFault {
    /// The call that fails, from 1.
    call: u32,
    /// Whether all later calls fail, too.
    is_persistent: bool,
    /// Whether a write of a meta page takes effect although it fails: only its sync fails.
    is_meta_written: bool,
    error: c_int,
}

static RECORDER: Mutex<Option<Recorder>> = Mutex::new(None);
static RECORDING_LOCK: Mutex<()> = Mutex::new(());

fn recorder() -> MutexGuard<'static, Option<Recorder>> {
    RECORDER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Records calls under a directory while it lives.
pub(crate) struct RecordingGuard {
    _lock: MutexGuard<'static, ()>,
}

impl RecordingGuard {
    pub(crate) fn start(root: &Path) -> Self {
        let lock = RECORDING_LOCK.lock().unwrap_or_else(PoisonError::into_inner);
        let root = root.canonicalize().unwrap();
        *recorder() = Some(Recorder { root, events: Vec::new(), fault: None, calls: 0, failed: None });
        Self { _lock: lock }
    }

    /// Adds a mark between the recorded calls.
    pub(crate) fn mark(&self, number: usize) {
        if let Some(recorder) = recorder().as_mut() {
            recorder.events.push(DiskEvent::Mark(number));
        }
    }

    /// Takes the events so far.
    pub(crate) fn events(&self) -> Vec<DiskEvent> {
        recorder().as_mut().map(|recorder| std::mem::take(&mut recorder.events)).unwrap_or_default()
    }

    /// Makes a call fail, counted from now on, and all later ones if the error `is_persistent`.
    pub(crate) fn inject(&self, call: u32, error: c_int, is_persistent: bool) {
        self.start_fault(InjectedFault { call, is_persistent, is_meta_written: false, error });
    }

    /// Like [`inject`](Self::inject), but a write of a meta page takes effect although it fails.
    pub(crate) fn inject_after_meta_write(&self, call: u32, error: c_int, is_persistent: bool) {
        self.start_fault(InjectedFault { call, is_persistent, is_meta_written: true, error });
    }

    fn start_fault(&self, fault: InjectedFault) {
        if let Some(recorder) = recorder().as_mut() {
            recorder.fault = Some(fault);
            recorder.calls = 0;
            recorder.failed = None;
        }
    }

    /// Ends the injection; returns the kind of the first call that failed.
    pub(crate) fn clear(&self) -> Option<DiskCall> {
        let mut recorder = recorder();
        let recorder = recorder.as_mut()?;
        recorder.fault = None;
        recorder.failed
    }
}

impl Drop for RecordingGuard {
    fn drop(&mut self) {
        *recorder() = None;
    }
}

impl Recorder {
    /// The error with which this call has to fail.
    fn should_fail(&mut self, call: DiskCall) -> Option<c_int> {
        let fault = self.fault?;
        self.calls += 1;
        let fails = self.calls == fault.call || self.calls > fault.call && fault.is_persistent;
        if fails {
            self.failed.get_or_insert(call);
        }
        fails.then_some(fault.error)
    }
}

fn fail(error: c_int) -> c_int {
    // SAFETY: the address of this thread's error number.
    unsafe { *libc::__errno_location() = error };
    -1
}

/// The path of an open file under the recorded directory, its number, and whether its writes are durable at once.
fn watched_fd(recorder: &Recorder, fd: c_int) -> Option<(PathBuf, u64, bool)> {
    let path = path_of(fd)?;
    if !path.starts_with(&recorder.root) || path.ends_with("lock.mdb") || path.ends_with("tendot.lock") {
        return None;
    }
    // SAFETY: the structure is written by the call before it is read.
    let (status, is_known) = unsafe {
        let mut status: libc::stat = std::mem::zeroed();
        let is_known = libc::fstat(fd, &raw mut status) == 0;
        (status, is_known)
    };
    // SAFETY: reads flags.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    is_known.then_some((path, status.st_ino, flags & libc::O_DSYNC != 0))
}

fn path_of(fd: c_int) -> Option<PathBuf> {
    let link = format!("/proc/self/fd/{fd}\0");
    let mut path = [0_u8; 4096];
    // SAFETY: the path ends with zero and the buffer has this length.
    let length = unsafe { libc::readlink(link.as_ptr().cast(), path.as_mut_ptr().cast(), path.len()) };
    let length = usize::try_from(length).ok()?;
    Some(PathBuf::from(OsStr::from_bytes(&path[..length])))
}

/// The absolute form of a path that may be relative to an open directory, if it is under the recorded one.
fn watched_path(recorder: &Recorder, directory: c_int, path: *const c_char) -> Option<PathBuf> {
    // SAFETY: callers pass a string that ends with zero.
    let path = Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(path) }.to_bytes()));
    let path = if path.is_absolute() { path.to_owned() } else { path_of(directory)?.join(path) };
    let watched =
        path.starts_with(&recorder.root) && !path.ends_with("lock.mdb") && !path.ends_with("tendot.lock");
    watched.then_some(path)
}

/// Records a write that `real` does, unless the call has to fail. Without `at` it is at the file's position.
fn write_with(fd: c_int, at: Option<off_t>, bytes: &[&[u8]], real: impl FnOnce() -> ssize_t) -> ssize_t {
    let mut guard = recorder();
    let Some((recorder, (_, file, is_durable))) =
        guard.as_mut().and_then(|recorder| watched_fd(recorder, fd).map(|file| (recorder, file)))
    else {
        drop(guard);
        return real();
    };
    if let Some(error) =
        recorder.should_fail(if is_durable { DiskCall::DurableWrite } else { DiskCall::Write })
    {
        if is_durable && recorder.fault.is_some_and(|fault| fault.is_meta_written) {
            real();
        }
        return fail(error) as ssize_t;
    }
    // SAFETY: returns the position.
    let at = at.unwrap_or_else(|| unsafe { libc::lseek(fd, 0, libc::SEEK_CUR) }).cast_unsigned();
    let written = real();
    if let Ok(length) = usize::try_from(written) {
        let mut bytes = bytes.concat();
        bytes.truncate(length);
        recorder.events.push(DiskEvent::Write { file, at, bytes, is_durable });
    }
    written
}

fn sync_with(fd: c_int, real: impl FnOnce() -> c_int) -> c_int {
    let mut guard = recorder();
    let Some((recorder, (path, file, _))) =
        guard.as_mut().and_then(|recorder| watched_fd(recorder, fd).map(|file| (recorder, file)))
    else {
        drop(guard);
        return real();
    };
    if let Some(error) = recorder.should_fail(DiskCall::Sync) {
        return fail(error);
    }
    recorder.events.push(if path.is_dir() { DiskEvent::SyncDir { path } } else { DiskEvent::Sync { file } });
    // The event is sufficient: the real disk is not synced.
    0
}

/// Records a change of names if it succeeded.
fn name_with(result: c_int, event: impl FnOnce(&Recorder) -> Option<DiskEvent>) -> c_int {
    if result == 0
        && let Some(recorder) = recorder().as_mut()
        && let Some(event) = event(recorder)
    {
        recorder.events.push(event);
    }
    result
}

/// # Safety
/// As the function of the C library, like all below.
unsafe fn slice<'a>(bytes: *const c_void, count: size_t) -> &'a [u8] {
    if count == 0 {
        return &[];
    }
    // SAFETY: the caller passes this many bytes.
    unsafe { std::slice::from_raw_parts(bytes.cast(), count) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn write(fd: c_int, bytes: *const c_void, count: size_t) -> ssize_t {
    // SAFETY: the arguments of the caller.
    let real = || unsafe { libc::syscall(libc::SYS_write, fd, bytes, count) as ssize_t };
    // SAFETY: as above.
    write_with(fd, None, &[unsafe { slice(bytes, count) }], real)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: the arguments of the caller.
    let real = || unsafe { libc::syscall(libc::SYS_writev, fd, parts, count) as ssize_t };
    // SAFETY: the caller passes this many parts with their lengths.
    let bytes: Vec<&[u8]> = unsafe {
        let parts = std::slice::from_raw_parts(parts, count.cast_unsigned() as usize);
        parts.iter().map(|part| slice(part.iov_base, part.iov_len)).collect()
    };
    write_with(fd, None, &bytes, real)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pwrite(fd: c_int, bytes: *const c_void, count: size_t, at: off_t) -> ssize_t {
    // SAFETY: the arguments of the caller.
    let real = || unsafe { libc::syscall(libc::SYS_pwrite64, fd, bytes, count, at) as ssize_t };
    // SAFETY: as above.
    write_with(fd, Some(at), &[unsafe { slice(bytes, count) }], real)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pwrite64(fd: c_int, bytes: *const c_void, count: size_t, at: off_t) -> ssize_t {
    // SAFETY: the arguments of the caller.
    unsafe { pwrite(fd, bytes, count, at) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fsync(fd: c_int) -> c_int {
    // SAFETY: the argument of the caller.
    sync_with(fd, || unsafe { libc::syscall(libc::SYS_fsync, fd) as c_int })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fdatasync(fd: c_int) -> c_int {
    // SAFETY: the argument of the caller.
    sync_with(fd, || unsafe { libc::syscall(libc::SYS_fdatasync, fd) as c_int })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ftruncate64(fd: c_int, length: off_t) -> c_int {
    // SAFETY: the arguments of the caller.
    let result = unsafe { libc::syscall(libc::SYS_ftruncate, fd, length) as c_int };
    name_with(result, |recorder| {
        let (_, file, _) = watched_fd(recorder, fd)?;
        Some(DiskEvent::Truncate { file, length: length.cast_unsigned() })
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ftruncate(fd: c_int, length: off_t) -> c_int {
    // SAFETY: the arguments of the caller.
    unsafe { ftruncate64(fd, length) }
}

/// The mode is passed only for new files.
#[unsafe(no_mangle)]
unsafe extern "C" fn open64(path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
    let open = |flags: c_int| {
        // SAFETY: the arguments of the caller.
        unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path, flags, mode) as c_int }
    };
    if flags & libc::O_CREAT == 0 {
        return open(flags);
    }
    let fd = open(flags | libc::O_EXCL);
    // SAFETY: reads this thread's error number.
    if fd < 0 && flags & libc::O_EXCL == 0 && unsafe { *libc::__errno_location() } == libc::EEXIST {
        return open(flags);
    }
    if fd >= 0
        && let Some(recorder) = recorder().as_mut()
        && let Some((path, file, _)) = watched_fd(recorder, fd)
    {
        recorder.events.push(DiskEvent::Create { path, file });
    }
    fd
}

#[unsafe(no_mangle)]
unsafe extern "C" fn open(path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
    // SAFETY: the arguments of the caller.
    unsafe { open64(path, flags, mode) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rename(from: *const c_char, to: *const c_char) -> c_int {
    let (cwd, flags) = (libc::AT_FDCWD, 0);
    // SAFETY: the arguments of the caller.
    let result = unsafe { libc::syscall(libc::SYS_renameat2, cwd, from, cwd, to, flags) as c_int };
    name_with(result, |recorder| {
        Some(DiskEvent::Rename {
            from: watched_path(recorder, cwd, from)?,
            to: watched_path(recorder, cwd, to)?,
        })
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn linkat(
    from_dir: c_int,
    from: *const c_char,
    to_dir: c_int,
    to: *const c_char,
    flags: c_int,
) -> c_int {
    // SAFETY: the arguments of the caller.
    let result = unsafe { libc::syscall(libc::SYS_linkat, from_dir, from, to_dir, to, flags) as c_int };
    name_with(result, |recorder| {
        Some(DiskEvent::Link {
            from: watched_path(recorder, from_dir, from)?,
            to: watched_path(recorder, to_dir, to)?,
        })
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn unlinkat(directory: c_int, path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: the arguments of the caller.
    let result = unsafe { libc::syscall(libc::SYS_unlinkat, directory, path, flags) as c_int };
    name_with(result, |recorder| Some(DiskEvent::Unlink { path: watched_path(recorder, directory, path)? }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn unlink(path: *const c_char) -> c_int {
    // SAFETY: the argument of the caller.
    unsafe { unlinkat(libc::AT_FDCWD, path, 0) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rmdir(path: *const c_char) -> c_int {
    // SAFETY: the argument of the caller.
    unsafe { unlinkat(libc::AT_FDCWD, path, libc::AT_REMOVEDIR) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mkdir(path: *const c_char, mode: mode_t) -> c_int {
    // SAFETY: the arguments of the caller.
    let result = unsafe { libc::syscall(libc::SYS_mkdirat, libc::AT_FDCWD, path, mode) as c_int };
    name_with(result, |recorder| {
        Some(DiskEvent::CreateDir { path: watched_path(recorder, libc::AT_FDCWD, path)? })
    })
}

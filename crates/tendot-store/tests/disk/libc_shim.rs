//! The calls with which files are changed, on their way to the system: recorded, or refused.
//!
//! LMDB is linked into this program, so its calls and those of the standard library come here first. They are looked at
//! only for files under one directory, and only by one test at a time.

#![allow(
    unsafe_code,
    dead_code,
    reason = "functions of the C library are replaced; each test uses some of this"
)]

use std::ffi::{CStr, OsStr, c_char, c_int, c_uint, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use libc::{iovec, mode_t, off_t, size_t, ssize_t};

/// Something that was done to a file or a folder.
#[derive(Clone, Debug)]
pub(crate) enum DiskEvent {
    /// Bytes of a file, by its number; durable when the call returns if it was watched_fd so.
    Write { file: u64, at: u64, bytes: Vec<u8>, is_durable: bool },
    /// Another length.
    Truncate { file: u64, length: u64 },
    /// All bytes of a file so far are durable when the call returns.
    Sync { file: u64 },
    /// A new file.
    Create { path: PathBuf, file: u64 },
    /// Another name, in the place of what had it.
    Rename { from: PathBuf, to: PathBuf },
    /// One more name.
    Link { from: PathBuf, to: PathBuf },
    /// A name less, of a file or an empty folder.
    Unlink { path: PathBuf },
    /// A new folder.
    CreateDir { path: PathBuf },
    /// All names in a folder so far are durable when the call returns.
    SyncDir { path: PathBuf },
    /// Something that the test knows.
    Mark(usize),
}

/// What a call is for, when one is to fail.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum DiskCall {
    Write,
    /// To a file that was watched_fd so that writes are durable: the page that tells which state is the last.
    DurableWrite,
    Sync,
}

struct Recorder {
    root: PathBuf,
    events: Vec<DiskEvent>,
    fault: Option<InjectedFault>,
    calls: u32,
    failed: Option<DiskCall>,
}

#[derive(Clone, Copy)]
struct InjectedFault {
    /// The call that fails, from 1.
    call: u32,
    /// Whether all after it fail too.
    stays: bool,
    error: c_int,
}

static RECORDER: Mutex<Option<Recorder>> = Mutex::new(None);
static TEST_LOCK: Mutex<()> = Mutex::new(());

fn recorder() -> MutexGuard<'static, Option<Recorder>> {
    RECORDER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Files under a directory are watched as long as this is there.
pub(crate) struct RecordingGuard {
    _one: MutexGuard<'static, ()>,
}

impl RecordingGuard {
    pub(crate) fn start(root: &Path) -> Self {
        let one = TEST_LOCK.lock().unwrap_or_else(PoisonError::into_inner);
        let root = root.canonicalize().unwrap();
        *recorder() = Some(Recorder { root, events: Vec::new(), fault: None, calls: 0, failed: None });
        Self { _one: one }
    }

    /// Notes something between the calls.
    pub(crate) fn mark(&self, number: usize) {
        if let Some(recorder) = recorder().as_mut() {
            recorder.events.push(DiskEvent::Mark(number));
        }
    }

    /// What was done so far.
    pub(crate) fn events(&self) -> Vec<DiskEvent> {
        recorder().as_mut().map(|recorder| std::mem::take(&mut recorder.events)).unwrap_or_default()
    }

    /// Lets a call fail, counted from now on; all after it too, if it `stays`.
    pub(crate) fn inject(&self, call: u32, error: c_int, stays: bool) {
        if let Some(recorder) = recorder().as_mut() {
            recorder.fault = Some(InjectedFault { call, stays, error });
            recorder.calls = 0;
            recorder.failed = None;
        }
    }

    /// Lets no call fail any more, and tells which one did first.
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
    /// Whether this call is to fail.
    fn should_fail(&mut self, call: DiskCall) -> Option<c_int> {
        let fault = self.fault?;
        self.calls += 1;
        let fails = self.calls == fault.call || self.calls > fault.call && fault.stays;
        if fails {
            self.failed.get_or_insert(call);
        }
        fails.then_some(fault.error)
    }
}

fn fail(error: c_int) -> c_int {
    // SAFETY: the place of this thread's error number.
    unsafe { *libc::__errno_location() = error };
    -1
}

/// The path of an open file under the watched directory, its number, and whether writes to it are durable at once.
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
    // SAFETY: both are as long as told.
    let length = unsafe { libc::readlink(link.as_ptr().cast(), path.as_mut_ptr().cast(), path.len()) };
    let length = usize::try_from(length).ok()?;
    Some(PathBuf::from(OsStr::from_bytes(&path[..length])))
}

/// A path as it was watched_path, within an open folder or by itself, if it is under the watched directory.
fn watched_path(recorder: &Recorder, folder: c_int, path: *const c_char) -> Option<PathBuf> {
    // SAFETY: callers give text that ends with zero.
    let path = Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(path) }.to_bytes()));
    let path = if path.is_absolute() { path.to_owned() } else { path_of(folder)?.join(path) };
    let watched =
        path.starts_with(&recorder.root) && !path.ends_with("lock.mdb") && !path.ends_with("tendot.lock");
    watched.then_some(path)
}

/// Writes by way of `real`, unless the call is to fail. `at` is asked before, if it depends on the file.
fn write_with(fd: c_int, at: Option<off_t>, bytes: &[&[u8]], real: impl FnOnce() -> ssize_t) -> ssize_t {
    let mut guard = recorder();
    let Some((recorder, (_, file, is_durable))) =
        guard.as_mut().and_then(|recorder| watched_fd(recorder, fd).map(|watched_fd| (recorder, watched_fd)))
    else {
        drop(guard);
        return real();
    };
    if let Some(error) = recorder.should_fail(if is_durable { DiskCall::DurableWrite } else { DiskCall::Write }) {
        return fail(error) as ssize_t;
    }
    // SAFETY: asks for a number.
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
        guard.as_mut().and_then(|recorder| watched_fd(recorder, fd).map(|watched_fd| (recorder, watched_fd)))
    else {
        drop(guard);
        return real();
    };
    if let Some(error) = recorder.should_fail(DiskCall::Sync) {
        return fail(error);
    }
    recorder.events.push(if path.is_dir() { DiskEvent::SyncDir { path } } else { DiskEvent::Sync { file } });
    // What is recorded is all that counts: the disk of this machine does not have to wait.
    0
}

/// Notes a change of names if it was done.
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
/// As the function of the C library; so are all below.
unsafe fn slice<'a>(bytes: *const c_void, count: size_t) -> &'a [u8] {
    if count == 0 {
        return &[];
    }
    // SAFETY: the caller gives so many bytes.
    unsafe { std::slice::from_raw_parts(bytes.cast(), count) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn write(fd: c_int, bytes: *const c_void, count: size_t) -> ssize_t {
    // SAFETY: passed on as they came.
    let real = || unsafe { libc::syscall(libc::SYS_write, fd, bytes, count) as ssize_t };
    // SAFETY: as above.
    write_with(fd, None, &[unsafe { slice(bytes, count) }], real)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: passed on as they came.
    let real = || unsafe { libc::syscall(libc::SYS_writev, fd, parts, count) as ssize_t };
    // SAFETY: the caller gives so many parts, each as long as told.
    let bytes: Vec<&[u8]> = unsafe {
        let parts = std::slice::from_raw_parts(parts, count.cast_unsigned() as usize);
        parts.iter().map(|part| slice(part.iov_base, part.iov_len)).collect()
    };
    write_with(fd, None, &bytes, real)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pwrite(fd: c_int, bytes: *const c_void, count: size_t, at: off_t) -> ssize_t {
    // SAFETY: passed on as they came.
    let real = || unsafe { libc::syscall(libc::SYS_pwrite64, fd, bytes, count, at) as ssize_t };
    // SAFETY: as above.
    write_with(fd, Some(at), &[unsafe { slice(bytes, count) }], real)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pwrite64(fd: c_int, bytes: *const c_void, count: size_t, at: off_t) -> ssize_t {
    // SAFETY: passed on as they came.
    unsafe { pwrite(fd, bytes, count, at) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fsync(fd: c_int) -> c_int {
    // SAFETY: passed on as it came.
    sync_with(fd, || unsafe { libc::syscall(libc::SYS_fsync, fd) as c_int })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fdatasync(fd: c_int) -> c_int {
    // SAFETY: passed on as it came.
    sync_with(fd, || unsafe { libc::syscall(libc::SYS_fdatasync, fd) as c_int })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ftruncate64(fd: c_int, length: off_t) -> c_int {
    // SAFETY: passed on as they came.
    let result = unsafe { libc::syscall(libc::SYS_ftruncate, fd, length) as c_int };
    name_with(result, |recorder| {
        let (_, file, _) = watched_fd(recorder, fd)?;
        Some(DiskEvent::Truncate { file, length: length.cast_unsigned() })
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ftruncate(fd: c_int, length: off_t) -> c_int {
    // SAFETY: passed on as they came.
    unsafe { ftruncate64(fd, length) }
}

/// The mode is there only for new files; where it is passed, it is passed like any argument.
#[unsafe(no_mangle)]
unsafe extern "C" fn open64(path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
    let open = |flags: c_int| {
        // SAFETY: passed on as they came.
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
    // SAFETY: passed on as they came.
    unsafe { open64(path, flags, mode) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rename(from: *const c_char, to: *const c_char) -> c_int {
    let (here, flags) = (libc::AT_FDCWD, 0);
    // SAFETY: passed on as they came.
    let result = unsafe { libc::syscall(libc::SYS_renameat2, here, from, here, to, flags) as c_int };
    name_with(result, |recorder| {
        Some(DiskEvent::Rename { from: watched_path(recorder, here, from)?, to: watched_path(recorder, here, to)? })
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn linkat(
    from_folder: c_int,
    from: *const c_char,
    to_folder: c_int,
    to: *const c_char,
    flags: c_int,
) -> c_int {
    // SAFETY: passed on as they came.
    let result = unsafe { libc::syscall(libc::SYS_linkat, from_folder, from, to_folder, to, flags) as c_int };
    name_with(result, |recorder| {
        Some(DiskEvent::Link { from: watched_path(recorder, from_folder, from)?, to: watched_path(recorder, to_folder, to)? })
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn unlinkat(folder: c_int, path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: passed on as they came.
    let result = unsafe { libc::syscall(libc::SYS_unlinkat, folder, path, flags) as c_int };
    name_with(result, |recorder| Some(DiskEvent::Unlink { path: watched_path(recorder, folder, path)? }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn unlink(path: *const c_char) -> c_int {
    // SAFETY: passed on as it came.
    unsafe { unlinkat(libc::AT_FDCWD, path, 0) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rmdir(path: *const c_char) -> c_int {
    // SAFETY: passed on as it came.
    unsafe { unlinkat(libc::AT_FDCWD, path, libc::AT_REMOVEDIR) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mkdir(path: *const c_char, mode: mode_t) -> c_int {
    // SAFETY: passed on as they came.
    let result = unsafe { libc::syscall(libc::SYS_mkdirat, libc::AT_FDCWD, path, mode) as c_int };
    name_with(result, |recorder| Some(DiskEvent::CreateDir { path: watched_path(recorder, libc::AT_FDCWD, path)? }))
}

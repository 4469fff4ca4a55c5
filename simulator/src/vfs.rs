//! SQLite over the [`Disk`] of the present thread.
//!
//! Registered as the default file system of the process, so that the gateway opens its store as
//! it always does. The only module with unsafe code: SQLite calls it with raw pointers. What the
//! functions rely on is what SQLite promises of a VFS: a file is opened before it is used and
//! closed once, buffers are as long as it says, and a connection stays on its thread.

#![allow(unsafe_code, reason = "SQLite calls these functions from C")]

mod machine;

use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::Once;

use rusqlite::ffi::{
    self, sqlite3_file, sqlite3_int64, sqlite3_io_methods, sqlite3_vfs, sqlite3_vfs_register,
};

use self::machine::{Handle, Machine, Region, Slot};
use crate::disk::{Code, Disk, code};

/// A path within the simulated machine is short.
const PATH_BYTES_MAX: c_int = 128;

thread_local! {
    static MACHINE: RefCell<Machine> = RefCell::new(Machine::new());
}

/// What SQLite keeps of an open file: its own part first, then the number of our handle.
#[repr(C)]
struct OpenFile {
    base: sqlite3_file,
    handle: u64,
}

/// Makes the simulated disk the file system of every store that this process opens from now on.
pub fn register() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let vfs = Box::leak(Box::new(vfs()));
        // SAFETY: the structure is never freed, and its functions are those below.
        let code = unsafe { sqlite3_vfs_register(vfs, 1) };
        assert_eq!(code, ffi::SQLITE_OK, "SQLite takes no file system");
    });
}

/// Works with the disk of this thread.
pub fn with_disk<T>(work: impl FnOnce(&mut Disk) -> T) -> T {
    MACHINE.with_borrow_mut(|machine| work(&mut machine.disk))
}

/// Gives this thread a new machine; nothing may be open on the old one.
pub fn renew(seed: u64) {
    MACHINE.with_borrow_mut(|machine| {
        assert!(machine.handles.is_empty(), "a file is still open");
        *machine = Machine {
            disk: Disk::new(seed),
            rng: fastrand::Rng::with_seed(seed),
            ..Machine::new()
        };
    });
}

/// Forgets the shared memory of processes that are gone.
///
/// # Panics
/// When a file is still open.
pub fn forget_processes() {
    MACHINE.with_borrow_mut(|machine| {
        assert!(machine.handles.is_empty(), "a file is still open");
        machine.shared.clear();
    });
}

fn vfs() -> sqlite3_vfs {
    sqlite3_vfs {
        iVersion: 2,
        szOsFile: size_of::<OpenFile>() as c_int,
        mxPathname: PATH_BYTES_MAX,
        pNext: std::ptr::null_mut(),
        zName: c"simulated".as_ptr(),
        pAppData: std::ptr::null_mut(),
        xOpen: Some(open),
        xDelete: Some(delete),
        xAccess: Some(access),
        xFullPathname: Some(full_pathname),
        xDlOpen: None,
        xDlError: None,
        xDlSym: None,
        xDlClose: None,
        xRandomness: Some(randomness),
        xSleep: Some(sleep),
        xCurrentTime: Some(current_time),
        xGetLastError: None,
        xCurrentTimeInt64: Some(current_time_int64),
        xSetSystemCall: None,
        xGetSystemCall: None,
        xNextSystemCall: None,
    }
}

static METHODS: sqlite3_io_methods = sqlite3_io_methods {
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: None,
    xUnfetch: None,
};

fn answer(result: Result<(), Code>) -> c_int {
    result.err().unwrap_or(ffi::SQLITE_OK)
}

/// The number of the handle behind SQLite's pointer.
unsafe fn handle_of(file: *mut sqlite3_file) -> u64 {
    // SAFETY: `open` filled it in, and SQLite passes no other.
    unsafe { (*file.cast::<OpenFile>()).handle }
}

/// Works with the disk and an open file's handle.
unsafe fn with_file(
    file: *mut sqlite3_file,
    work: impl FnOnce(&mut Machine, u64, Handle) -> Result<(), Code>,
) -> c_int {
    // SAFETY: as the caller says.
    let number = unsafe { handle_of(file) };
    MACHINE.with_borrow_mut(|machine| {
        let handle = machine.handles.get(&number).copied();
        answer(handle.map_or(Err(code::IO), |handle| work(machine, number, handle)))
    })
}

unsafe fn text<'a>(name: *const c_char) -> Option<&'a str> {
    if name.is_null() {
        return None;
    }
    // SAFETY: SQLite passes texts that end in a zero.
    unsafe { CStr::from_ptr(name) }.to_str().ok()
}

unsafe extern "C" fn open(
    _: *mut sqlite3_vfs,
    name: *const c_char,
    file: *mut sqlite3_file,
    flags: c_int,
    flags_out: *mut c_int,
) -> c_int {
    // SAFETY: SQLite passes room for an `OpenFile`; without methods it calls nothing on it.
    unsafe { (*file).pMethods = std::ptr::null() };
    // SAFETY: a name or null.
    let Some(name) = (unsafe { text(name) }) else {
        // Temporary files: the store keeps those in memory.
        return code::NO_FILE;
    };
    let opened = MACHINE.with_borrow_mut(|machine| {
        let found = if flags & ffi::SQLITE_OPEN_CREATE != 0 {
            machine.disk.create(name)?
        } else {
            machine.disk.find(name).ok_or(code::NO_FILE)?
        };
        let number = machine.next_handle;
        machine.next_handle += 1;
        let handle = Handle::on(found);
        machine.handles.insert(number, handle);
        Ok(number)
    });
    match opened {
        Ok(handle) => {
            // SAFETY: SQLite passes room for an `OpenFile`, and a place for the flags or null.
            unsafe {
                (*file.cast::<OpenFile>()).handle = handle;
                (*file).pMethods = &raw const METHODS;
                if let Some(out) = flags_out.as_mut() {
                    *out = flags;
                }
            }
            ffi::SQLITE_OK
        }
        Err(code) => code,
    }
}

unsafe extern "C" fn delete(_: *mut sqlite3_vfs, name: *const c_char, _: c_int) -> c_int {
    // SAFETY: a name or null.
    let name = unsafe { text(name) }.unwrap_or_default();
    answer(with_disk(|disk| disk.remove(name)))
}

unsafe extern "C" fn access(
    _: *mut sqlite3_vfs,
    name: *const c_char,
    _: c_int,
    out: *mut c_int,
) -> c_int {
    // SAFETY: a name or null.
    let name = unsafe { text(name) }.unwrap_or_default();
    let is_there = with_disk(|disk| disk.find(name)).is_some();
    // SAFETY: SQLite passes a place for the answer.
    unsafe { *out = c_int::from(is_there) };
    ffi::SQLITE_OK
}

unsafe extern "C" fn full_pathname(
    _: *mut sqlite3_vfs,
    name: *const c_char,
    room: c_int,
    out: *mut c_char,
) -> c_int {
    // SAFETY: a name or null.
    let name = unsafe { text(name) }.unwrap_or_default().as_bytes();
    let Ok(room) = usize::try_from(room) else {
        return code::NO_FILE;
    };
    if name.len() >= room {
        return code::NO_FILE;
    }
    // SAFETY: SQLite passes so much room, and the name with its zero fits.
    unsafe {
        std::ptr::copy_nonoverlapping(name.as_ptr().cast(), out, name.len());
        *out.add(name.len()) = 0;
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn randomness(_: *mut sqlite3_vfs, bytes: c_int, out: *mut c_char) -> c_int {
    let Ok(length) = usize::try_from(bytes) else {
        return 0;
    };
    // SAFETY: SQLite passes room for so many bytes.
    let out = unsafe { std::slice::from_raw_parts_mut(out.cast::<u8>(), length) };
    MACHINE.with_borrow_mut(|machine| machine.rng.fill(out));
    bytes
}

/// Whoever waits for a lock does not make the simulation wait.
unsafe extern "C" fn sleep(_: *mut sqlite3_vfs, micros: c_int) -> c_int {
    micros
}

/// The store takes its times from its own clock; this one stands still.
unsafe extern "C" fn current_time(_: *mut sqlite3_vfs, out: *mut f64) -> c_int {
    // SAFETY: SQLite passes a place for the answer.
    unsafe { *out = 2_460_000.5 };
    ffi::SQLITE_OK
}

unsafe extern "C" fn current_time_int64(_: *mut sqlite3_vfs, out: *mut sqlite3_int64) -> c_int {
    // SAFETY: SQLite passes a place for the answer.
    unsafe { *out = 212_544_043_200_000 };
    ffi::SQLITE_OK
}

unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    // SAFETY: an open file.
    let number = unsafe { handle_of(file) };
    MACHINE.with_borrow_mut(|machine| machine.handles.remove(&number));
    ffi::SQLITE_OK
}

unsafe extern "C" fn read(
    file: *mut sqlite3_file,
    into: *mut c_void,
    bytes: c_int,
    offset: sqlite3_int64,
) -> c_int {
    let (Ok(bytes), Ok(offset)) = (usize::try_from(bytes), usize::try_from(offset)) else {
        return code::READ;
    };
    // SAFETY: SQLite passes room for so many bytes.
    let into = unsafe { std::slice::from_raw_parts_mut(into.cast::<u8>(), bytes) };
    // SAFETY: an open file.
    unsafe {
        with_file(file, |machine, _, handle| {
            machine.disk.read(handle.file, offset, into)
        })
    }
}

unsafe extern "C" fn write(
    file: *mut sqlite3_file,
    from: *const c_void,
    bytes: c_int,
    offset: sqlite3_int64,
) -> c_int {
    let (Ok(bytes), Ok(offset)) = (usize::try_from(bytes), usize::try_from(offset)) else {
        return code::WRITE;
    };
    // SAFETY: SQLite passes so many bytes.
    let from = unsafe { std::slice::from_raw_parts(from.cast::<u8>(), bytes) };
    // SAFETY: an open file.
    unsafe {
        with_file(file, |machine, _, handle| {
            machine.disk.write(handle.file, offset, from)
        })
    }
}

unsafe extern "C" fn truncate(file: *mut sqlite3_file, bytes: sqlite3_int64) -> c_int {
    let Ok(bytes) = usize::try_from(bytes) else {
        return code::WRITE;
    };
    // SAFETY: an open file.
    unsafe {
        with_file(file, |machine, _, handle| {
            machine.disk.truncate(handle.file, bytes)
        })
    }
}

unsafe extern "C" fn sync(file: *mut sqlite3_file, _: c_int) -> c_int {
    // SAFETY: an open file.
    unsafe { with_file(file, |machine, _, handle| machine.disk.sync(handle.file)) }
}

unsafe extern "C" fn file_size(file: *mut sqlite3_file, out: *mut sqlite3_int64) -> c_int {
    // SAFETY: an open file, and a place for the answer.
    unsafe {
        with_file(file, |machine, _, handle| {
            *out = machine.disk.size(handle.file) as sqlite3_int64;
            Ok(())
        })
    }
}

unsafe extern "C" fn lock(file: *mut sqlite3_file, level: c_int) -> c_int {
    // SAFETY: an open file.
    unsafe {
        with_file(file, |machine, number, handle| {
            machine.lock(number, handle, level)
        })
    }
}

unsafe extern "C" fn unlock(file: *mut sqlite3_file, level: c_int) -> c_int {
    // SAFETY: an open file.
    unsafe {
        with_file(file, |machine, number, handle| {
            machine.set_lock(number, level.min(handle.lock));
            Ok(())
        })
    }
}

unsafe extern "C" fn check_reserved_lock(file: *mut sqlite3_file, out: *mut c_int) -> c_int {
    // SAFETY: an open file, and a place for the answer.
    unsafe {
        with_file(file, |machine, number, handle| {
            let others = machine.lock_of_others(number, handle.file);
            *out = c_int::from(others.max(handle.lock) >= ffi::SQLITE_LOCK_RESERVED);
            Ok(())
        })
    }
}

unsafe extern "C" fn file_control(_: *mut sqlite3_file, _: c_int, _: *mut c_void) -> c_int {
    ffi::SQLITE_NOTFOUND
}

unsafe extern "C" fn sector_size(_: *mut sqlite3_file) -> c_int {
    4_096
}

/// What SQLite assumes of every disk: a write changes no bytes beside its own.
unsafe extern "C" fn device_characteristics(_: *mut sqlite3_file) -> c_int {
    ffi::SQLITE_IOCAP_POWERSAFE_OVERWRITE
}

unsafe extern "C" fn shm_map(
    file: *mut sqlite3_file,
    region: c_int,
    bytes: c_int,
    extend: c_int,
    out: *mut *mut c_void,
) -> c_int {
    let (Ok(region), Ok(bytes)) = (usize::try_from(region), usize::try_from(bytes)) else {
        return code::IO;
    };
    // SAFETY: an open file, and a place for the address.
    unsafe {
        with_file(file, |machine, _, handle| {
            let regions = machine.shared.entry(handle.file).or_default();
            while regions.len() <= region && extend != 0 {
                regions.push(Region::new(bytes));
            }
            let address = regions.get(region).map(|region| region.address.cast());
            *out = address.unwrap_or(std::ptr::null_mut());
            Ok(())
        })
    }
}

unsafe extern "C" fn shm_lock(
    file: *mut sqlite3_file,
    offset: c_int,
    count: c_int,
    flags: c_int,
) -> c_int {
    let (Ok(offset), Ok(count)) = (usize::try_from(offset), usize::try_from(count)) else {
        return code::IO;
    };
    let wanted = if flags & ffi::SQLITE_SHM_UNLOCK != 0 {
        Slot::Free
    } else if flags & ffi::SQLITE_SHM_EXCLUSIVE != 0 {
        Slot::Exclusive
    } else {
        Slot::Shared
    };
    // SAFETY: an open file.
    unsafe {
        with_file(file, |machine, number, handle| {
            machine.lock_slots(number, handle.file, offset..offset + count, wanted)
        })
    }
}

/// One thread has nothing to put in order.
unsafe extern "C" fn shm_barrier(_: *mut sqlite3_file) {}

/// The memory goes once all processes are gone: see [`forget_processes`].
unsafe extern "C" fn shm_unmap(_: *mut sqlite3_file, _: c_int) -> c_int {
    ffi::SQLITE_OK
}

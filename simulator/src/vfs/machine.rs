//! The machine of a thread: its disk, and what processes have open and locked on it.

use std::collections::BTreeMap;
use std::ffi::c_int;

use rusqlite::ffi;

use crate::disk::{Code, Disk, Op, code};

/// Slots of the locks that belong to a WAL's shared memory.
const SLOTS: usize = ffi::SQLITE_SHM_NLOCK as usize;

/// The disk of a thread with what processes have open on it.
pub(super) struct Machine {
    pub(super) disk: Disk,
    pub(super) handles: BTreeMap<u64, Handle>,
    pub(super) next_handle: u64,
    pub(super) shared: BTreeMap<u32, Vec<Region>>,
    /// For what SQLite wants by chance.
    pub(super) rng: fastrand::Rng,
}

impl Machine {
    pub(super) fn new() -> Self {
        Self {
            disk: Disk::new(0),
            handles: BTreeMap::new(),
            next_handle: 1,
            shared: BTreeMap::new(),
            rng: fastrand::Rng::with_seed(0),
        }
    }
}

/// What a process holds of an open file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Handle {
    pub(super) file: u32,
    pub(super) lock: c_int,
    slots: [Slot; SLOTS],
}

impl Handle {
    /// A handle on a file, without locks.
    pub(super) const fn on(file: u32) -> Self {
        Self {
            file,
            lock: ffi::SQLITE_LOCK_NONE,
            slots: [Slot::Free; SLOTS],
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Slot {
    Free,
    Shared,
    Exclusive,
}

/// A piece of shared memory, for as long as somebody may have its address.
pub(super) struct Region {
    pub(super) address: *mut u64,
    words: usize,
}

impl Region {
    pub(super) fn new(bytes: usize) -> Self {
        let words = bytes.div_ceil(size_of::<u64>());
        let memory = vec![0_u64; words].into_boxed_slice();
        Self {
            address: Box::into_raw(memory).cast(),
            words,
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        let memory = std::ptr::slice_from_raw_parts_mut(self.address, self.words);
        // SAFETY: made by `Box::into_raw` of a slice of so many words, and dropped only once
        // nobody has the file open.
        drop(unsafe { Box::from_raw(memory) });
    }
}

impl Machine {
    /// The strongest lock that others have on a file.
    pub(super) fn lock_of_others(&self, number: u64, file: u32) -> c_int {
        let others = self.handles.iter();
        let others = others.filter(|(other, handle)| **other != number && handle.file == file);
        let strongest = others.map(|(_, handle)| handle.lock).max();
        strongest.unwrap_or(ffi::SQLITE_LOCK_NONE)
    }

    pub(super) fn lock(&mut self, number: u64, handle: Handle, level: c_int) -> Result<(), Code> {
        if level <= handle.lock {
            return Ok(());
        }
        self.disk.admit(Op::Lock)?;
        let others = self.lock_of_others(number, handle.file);
        let is_free = match level {
            ffi::SQLITE_LOCK_SHARED => others < ffi::SQLITE_LOCK_PENDING,
            ffi::SQLITE_LOCK_RESERVED => others < ffi::SQLITE_LOCK_RESERVED,
            _ => others < ffi::SQLITE_LOCK_SHARED,
        };
        if is_free {
            self.set_lock(number, level);
            Ok(())
        } else {
            Err(code::BUSY)
        }
    }

    pub(super) fn set_lock(&mut self, number: u64, level: c_int) {
        if let Some(handle) = self.handles.get_mut(&number) {
            handle.lock = level;
        }
    }

    pub(super) fn lock_slots(
        &mut self,
        number: u64,
        file: u32,
        range: std::ops::Range<usize>,
        wanted: Slot,
    ) -> Result<(), Code> {
        if wanted != Slot::Free {
            self.disk.admit(Op::Lock)?;
            let is_taken = self.handles.iter().any(|(other, handle)| {
                let slots = handle.slots.get(range.clone()).unwrap_or_default();
                *other != number
                    && handle.file == file
                    && slots.iter().any(|slot| match slot {
                        Slot::Free => false,
                        Slot::Shared => wanted == Slot::Exclusive,
                        Slot::Exclusive => true,
                    })
            });
            if is_taken {
                return Err(code::BUSY);
            }
        }
        let handle = self.handles.get_mut(&number).ok_or(code::IO)?;
        let slots = handle.slots.get_mut(range).ok_or(code::IO)?;
        slots.fill(wanted);
        Ok(())
    }
}

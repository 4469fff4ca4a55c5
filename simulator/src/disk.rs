//! A disk that can lose power: what was written and not synced survives a cut in whole, in part
//! or not at all.
//!
//! A file is its content as a process sees it, and beside that what the platter still holds of
//! the chunks that were written since the last sync. A sync that fails leaves its chunks behind:
//! as with the page caches of real systems, a later sync that works does not write them.

use std::collections::BTreeMap;

use fastrand::Rng;

/// The part of a file that survives as a whole or not.
const CHUNK: usize = 512;

/// A code of SQLite.
pub type Code = i32;

/// What can be asked of the disk, as far as faults tell it apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// A read.
    Read,
    /// A write or a change of size.
    Write,
    /// A sync.
    Sync,
    /// A new name, or one less.
    Name,
    /// A lock.
    Lock,
}

impl Op {
    const fn changes(self) -> bool {
        match self {
            Self::Write | Self::Sync | Self::Name => true,
            Self::Read | Self::Lock => false,
        }
    }
}

/// A fault that is not the end: the disk refuses some operations and then works again.
#[derive(Debug, Clone, Copy)]
pub struct Fault {
    /// What it refuses.
    pub op: Op,
    /// How many of them work before.
    pub after: u32,
    /// How many it refuses.
    pub times: u32,
    /// What it says.
    pub code: Code,
}

/// What of the unsynced writes a cut leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Survival {
    /// Nothing.
    Nothing,
    /// Everything.
    Everything,
    /// What was written up to some moment.
    Prefix,
    /// Each chunk by chance, some torn within.
    Chance,
}

/// Whether the machine works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Power {
    /// It does.
    On,
    /// The power is cut: everything fails until the next start.
    Cut,
    /// The process is dead, the machine is not: everything fails, nothing is lost.
    Halted,
}

/// The files of one machine.
#[derive(Debug)]
pub struct Disk {
    rng: Rng,
    files: BTreeMap<u32, File>,
    names: BTreeMap<String, u32>,
    next_file: u32,
    /// Counts writes, so that a prefix of them can survive.
    written: u64,
    power: Power,
    cut_after: Option<u32>,
    fault: Option<Fault>,
    is_quiet: bool,
    /// What happened since somebody asked.
    notes: Vec<String>,
}

#[derive(Debug, Default)]
struct File {
    data: Vec<u8>,
    platter_bytes: usize,
    /// The chunks of which the platter holds something else than `data`.
    unsynced: BTreeMap<usize, Unsynced>,
    name_is_durable: bool,
}

#[derive(Debug)]
struct Unsynced {
    platter: [u8; CHUNK],
    written: u64,
    /// False after a sync that failed: the next one passes it over.
    is_dirty: bool,
}

/// SQLite's codes that the disk answers with.
pub mod code {
    use rusqlite::ffi;

    use super::Code;

    /// A read failed.
    pub const READ: Code = ffi::SQLITE_IOERR_READ;
    /// A read behind the end.
    pub const SHORT_READ: Code = ffi::SQLITE_IOERR_SHORT_READ;
    /// A write failed.
    pub const WRITE: Code = ffi::SQLITE_IOERR_WRITE;
    /// A sync failed.
    pub const SYNC: Code = ffi::SQLITE_IOERR_FSYNC;
    /// The disk is full.
    pub const FULL: Code = ffi::SQLITE_FULL;
    /// Somebody else has the lock.
    pub const BUSY: Code = ffi::SQLITE_BUSY;
    /// There is no such file.
    pub const NO_FILE: Code = ffi::SQLITE_CANTOPEN;
    /// Anything else that fails.
    pub const IO: Code = ffi::SQLITE_IOERR;
}

impl Disk {
    /// An empty disk; the seed decides what its cuts leave.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            rng: Rng::with_seed(seed),
            files: BTreeMap::new(),
            names: BTreeMap::new(),
            next_file: 1,
            written: 0,
            power: Power::On,
            cut_after: None,
            fault: None,
            is_quiet: false,
            notes: Vec::new(),
        }
    }

    /// Cuts the power after so many more changes.
    pub fn cut_after(&mut self, changes: u32) {
        self.cut_after = Some(changes);
    }

    /// Lets a fault happen.
    pub fn arm(&mut self, fault: Fault) {
        self.fault = Some(fault);
    }

    /// Takes back what was to happen and has not.
    pub fn disarm(&mut self) {
        self.cut_after = None;
        self.fault = None;
    }

    /// The disk works again, if it refused something.
    pub fn forgive(&mut self) {
        self.fault = None;
    }

    /// Whether the machine works.
    #[must_use]
    pub const fn power(&self) -> Power {
        self.power
    }

    /// Ends the process without a word, unless the power was cut already.
    pub fn halt(&mut self) {
        if self.power == Power::On {
            self.power = Power::Halted;
        }
    }

    /// While it is quiet nothing fails and nothing counts: somebody only looks.
    pub fn set_quiet(&mut self, is_quiet: bool) {
        self.is_quiet = is_quiet;
    }

    /// What happened since the last call, for the history.
    pub fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// Starts the machine again on what survived, and says what that was.
    pub fn restart(&mut self) -> Survival {
        let survival = match (self.power, self.rng.u32(0..8)) {
            (Power::On | Power::Halted, _) | (Power::Cut, 0) => Survival::Everything,
            (Power::Cut, 1 | 2) => Survival::Nothing,
            (Power::Cut, 3 | 4) => Survival::Prefix,
            (Power::Cut, _) => Survival::Chance,
        };
        self.restart_with(survival);
        survival
    }

    /// As [`Disk::restart`], on what a test wants to survive.
    pub fn restart_with(&mut self, survival: Survival) {
        if self.power == Power::Cut {
            self.lose(survival);
        }
        self.disarm();
        self.power = Power::On;
    }

    /// Cuts the power now.
    pub fn cut(&mut self) {
        self.power = Power::Cut;
    }

    fn lose(&mut self, survival: Survival) {
        let oldest = self.files.values().filter_map(File::oldest).min();
        let until = oldest.map_or(0, |oldest| self.rng.u64(oldest..=self.written));
        let kept_in_8 = [1, 4, 7][self.rng.usize(0..3)];
        let rng = &mut self.rng;
        for file in self.files.values_mut() {
            file.lose(rng, survival, until, kept_in_8);
        }
        let files = &self.files;
        let named = self.names.values().copied().collect::<Vec<_>>();
        let lost: Vec<u32> = named
            .into_iter()
            .filter(|id| {
                let is_durable = files.get(id).is_some_and(|file| file.name_is_durable);
                !is_durable && survival != Survival::Everything && rng.bool()
            })
            .collect();
        self.names.retain(|_, id| !lost.contains(id));
        let names = &self.names;
        self.files
            .retain(|id, _| names.values().any(|named| named == id));
    }

    /// Counts an operation against what is to happen.
    ///
    /// # Errors
    /// The code to answer with. A cut during a write leaves the write on its way.
    pub fn admit(&mut self, op: Op) -> Result<(), Code> {
        if self.is_quiet {
            return Ok(());
        }
        if self.power != Power::On {
            return Err(code::IO);
        }
        if let Some(left) = self.cut_after.as_mut().filter(|_| op.changes()) {
            if *left == 0 {
                self.power = Power::Cut;
                self.notes.push(format!("the power is cut at a {op:?}"));
                return Err(code::IO);
            }
            *left -= 1;
        }
        let Some(fault) = self.fault.as_mut().filter(|fault| fault.op == op) else {
            return Ok(());
        };
        if fault.after > 0 {
            fault.after -= 1;
            return Ok(());
        }
        if fault.times == 0 {
            self.fault = None;
            return Ok(());
        }
        fault.times -= 1;
        let code = fault.code;
        self.notes.push(format!("a {op:?} is refused with {code}"));
        Err(code)
    }

    /// The number of the file with this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<u32> {
        self.names.get(name).copied()
    }

    /// The number of a file, which is made if there is none.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn create(&mut self, name: &str) -> Result<u32, Code> {
        if let Some(found) = self.find(name) {
            return Ok(found);
        }
        self.admit(Op::Name)?;
        let id = self.next_file;
        self.next_file += 1;
        self.files.insert(id, File::default());
        self.names.insert(name.to_owned(), id);
        Ok(id)
    }

    /// Removes a name.
    ///
    /// # Errors
    /// When there is none, or the disk refuses.
    pub fn remove(&mut self, name: &str) -> Result<(), Code> {
        self.admit(Op::Name)?;
        let removed = self.names.remove(name);
        removed
            .map(drop)
            .ok_or(rusqlite::ffi::SQLITE_IOERR_DELETE_NOENT)
    }

    /// The size of a file in bytes.
    #[must_use]
    pub fn size(&self, id: u32) -> usize {
        self.files.get(&id).map_or(0, |file| file.data.len())
    }

    /// Reads; what is behind the end is zero and [`code::SHORT_READ`].
    ///
    /// # Errors
    /// When the disk refuses, or the end is reached.
    pub fn read(&mut self, id: u32, offset: usize, into: &mut [u8]) -> Result<(), Code> {
        into.fill(0);
        self.admit(Op::Read)?;
        let file = self.files.get(&id).ok_or(code::READ)?;
        let there = file.data.get(offset..).unwrap_or_default();
        let bytes = there.len().min(into.len());
        into[..bytes].copy_from_slice(&there[..bytes]);
        if bytes == into.len() {
            Ok(())
        } else {
            Err(code::SHORT_READ)
        }
    }

    /// Writes.
    ///
    /// # Errors
    /// When the disk refuses; part of it may be written then.
    pub fn write(&mut self, id: u32, offset: usize, bytes: &[u8]) -> Result<(), Code> {
        let was = self.power;
        let admitted = self.admit(Op::Write);
        let on_its_way = match admitted {
            Ok(()) => bytes.len(),
            Err(_) if was == Power::On => self.rng.usize(0..=bytes.len()),
            Err(_) => 0,
        };
        self.written += 1;
        let written = self.written;
        if let Some(file) = self.files.get_mut(&id) {
            file.write(offset, &bytes[..on_its_way], written);
        }
        admitted.map_err(|code| if code == code::IO { code::WRITE } else { code })
    }

    /// Cuts a file to a size.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn truncate(&mut self, id: u32, bytes: usize) -> Result<(), Code> {
        self.admit(Op::Write)?;
        self.written += 1;
        let written = self.written;
        if let Some(file) = self.files.get_mut(&id) {
            file.truncate(bytes, written);
        }
        Ok(())
    }

    /// Brings a file to the platter.
    ///
    /// # Errors
    /// When the disk refuses: then nobody knows what of it is there.
    pub fn sync(&mut self, id: u32) -> Result<(), Code> {
        let was = self.power;
        let admitted = self.admit(Op::Sync);
        let Some(file) = self.files.get_mut(&id) else {
            return admitted;
        };
        match admitted {
            Ok(()) => file.sync(),
            // The power may be cut just after it reached the platter.
            Err(_) if was == Power::On && self.power == Power::Cut && self.rng.bool() => {
                file.sync();
            }
            Err(_) => file.forget_dirty(),
        }
        admitted.map_err(|code| if code == code::IO { code::SYNC } else { code })
    }
}

impl File {
    fn oldest(&self) -> Option<u64> {
        self.unsynced.values().map(|chunk| chunk.written).min()
    }

    /// Keeps what the platter holds of some bytes before they change.
    fn touch(&mut self, from: usize, until: usize, written: u64) {
        for chunk in from / CHUNK..until.div_ceil(CHUNK) {
            let (data, start) = (&self.data, chunk * CHUNK);
            let unsynced = self.unsynced.entry(chunk).or_insert_with(|| {
                let mut platter = [0; CHUNK];
                let there = data.get(start..).unwrap_or_default();
                let bytes = there.len().min(CHUNK);
                platter[..bytes].copy_from_slice(&there[..bytes]);
                Unsynced {
                    platter,
                    written,
                    is_dirty: true,
                }
            });
            unsynced.written = written;
            unsynced.is_dirty = true;
        }
    }

    fn write(&mut self, offset: usize, bytes: &[u8], written: u64) {
        if bytes.is_empty() {
            return;
        }
        let until = offset + bytes.len();
        self.touch(offset, until, written);
        if self.data.len() < until {
            self.data.resize(until, 0);
        }
        self.data[offset..until].copy_from_slice(bytes);
    }

    fn truncate(&mut self, bytes: usize, written: u64) {
        if bytes < self.data.len() {
            self.touch(bytes, self.data.len(), written);
        }
        self.data.resize(bytes, 0);
    }

    fn sync(&mut self) {
        self.unsynced.retain(|_, chunk| !chunk.is_dirty);
        self.platter_bytes = self.data.len();
        self.name_is_durable = true;
    }

    fn forget_dirty(&mut self) {
        for chunk in self.unsynced.values_mut() {
            chunk.is_dirty = false;
        }
    }

    fn lose(&mut self, rng: &mut Rng, survival: Survival, until: u64, kept_in_8: u32) {
        let unsynced = std::mem::take(&mut self.unsynced);
        let grown = self.data.len().max(self.platter_bytes);
        let bytes = match survival {
            Survival::Nothing => self.platter_bytes,
            Survival::Everything => self.data.len(),
            Survival::Prefix | Survival::Chance if rng.bool() => self.platter_bytes,
            Survival::Prefix | Survival::Chance => self.data.len(),
        };
        self.data.resize(grown, 0);
        for (chunk, old) in unsynced {
            let start = chunk * CHUNK;
            let end = (start + CHUNK).min(grown);
            if start >= end {
                continue;
            }
            let lost = match survival {
                Survival::Nothing => 0,
                Survival::Everything => CHUNK,
                Survival::Prefix if old.written <= until => CHUNK,
                Survival::Prefix => 0,
                // Torn within: its beginning is new.
                Survival::Chance if rng.u32(0..16) == 0 => rng.usize(0..CHUNK),
                Survival::Chance if rng.u32(0..8) < kept_in_8 => CHUNK,
                Survival::Chance => 0,
            };
            let from = (start + lost).min(end);
            self.data[from..end].copy_from_slice(&old.platter[from - start..end - start]);
        }
        self.data.resize(bytes, 0);
        self.platter_bytes = bytes;
        self.name_is_durable = true;
    }
}

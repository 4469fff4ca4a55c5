//! What fails under the gateway: the disk, the process, the files that it finds.

mod crash;
mod disk;
mod dying;
mod files;
mod socket;

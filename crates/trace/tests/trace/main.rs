//! The crate from outside: real files, cut and damaged logs, a full disk, the kept bytes.

#[cfg(test)]
mod following;
#[cfg(test)]
mod full_disk;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod reading;
#[cfg(test)]
mod story;

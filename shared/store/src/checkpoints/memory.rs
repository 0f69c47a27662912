//! The memory that an upload holds parts in: bounded, taken from the kernel, used again for the next part, and given back when all of
//! them are sent. What is given to an allocator it may keep.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use memmap2::MmapMut;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The MiB in memory at once. S3 accepts 85 to 90 MB/s for one request (Amazon S3 user guide, "Performance design patterns for Amazon S3"), so ten
/// parts of 16 MiB fill most of a network of 10 Gbit/s.
const HELD_MIB: u32 = 160;

/// Largest part that is not worth a mapping of its own, in bytes.
const SMALL_BYTES: usize = 1024 * 1024;

#[derive(Debug)]
pub(super) struct UploadMemory {
    permits: Arc<Semaphore>,
    free: Mutex<Vec<MmapMut>>,
}

/// A part's, for as long as anybody holds it.
#[derive(Debug)]
pub(super) struct UploadBuffer {
    bytes: BufferBytes,
    length: usize,
    memory: Arc<UploadMemory>,
    _permit: OwnedSemaphorePermit,
}

#[derive(Debug)]
enum BufferBytes {
    Small(Vec<u8>),
    Mapped(MmapMut),
}

impl UploadMemory {
    pub(super) fn new() -> Arc<Self> {
        let permits = Arc::new(Semaphore::new(usize::try_from(HELD_MIB).unwrap_or(1)));
        Arc::new(Self { permits, free: Mutex::default() })
    }

    /// Room for `length` bytes of a file with parts of `part_bytes`, once there is some.
    pub(super) async fn reserve(self: &Arc<Self>, length: usize, part_bytes: usize) -> std::io::Result<UploadBuffer> {
        let small = length <= SMALL_BYTES;
        let permits = Arc::clone(&self.permits).acquire_many_owned(if small { 1 } else { permits(part_bytes) });
        let permit = permits.await.map_err(std::io::Error::other)?;
        let bytes = if small {
            BufferBytes::Small(vec![0; length])
        } else {
            BufferBytes::Mapped(self.mapped(part_bytes.max(length))?)
        };
        Ok(UploadBuffer { bytes, length, memory: Arc::clone(self), _permit: permit })
    }

    /// One of exactly that size: whatever is in it, it counts in full.
    fn mapped(&self, bytes: usize) -> std::io::Result<MmapMut> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        free.retain(|memory| memory.len() == bytes);
        free.pop().map_or_else(|| MmapMut::map_anon(bytes), Ok)
    }
}

impl UploadBuffer {
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.bytes {
            BufferBytes::Small(bytes) => bytes,
            BufferBytes::Mapped(bytes) => &mut bytes[..self.length],
        }
    }

    /// Bytes for many readers.
    pub(super) fn shared(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for UploadBuffer {
    fn as_ref(&self) -> &[u8] {
        match &self.bytes {
            BufferBytes::Small(bytes) => bytes,
            BufferBytes::Mapped(bytes) => &bytes[..self.length],
        }
    }
}

impl Drop for UploadBuffer {
    fn drop(&mut self) {
        if let BufferBytes::Mapped(bytes) = std::mem::replace(&mut self.bytes, BufferBytes::Small(Vec::new())) {
            self.memory.free.lock().unwrap_or_else(PoisonError::into_inner).push(bytes);
        }
    }
}

/// Permits that a part takes: all at most, so that a part of any size is taken in the end.
fn permits(part_bytes: usize) -> u32 {
    u32::try_from(part_bytes.div_ceil(1024 * 1024)).unwrap_or(u32::MAX).clamp(1, HELD_MIB)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1024 * 1024;

    #[test]
    fn a_part_of_any_size_fits() {
        assert_eq!([permits(0), permits(16 * MIB), permits(16 * MIB + 1), permits(1 << 40)], [1, 16, 17, 160]);
    }

    #[tokio::test]
    async fn no_more_is_held_than_there_is() {
        let memory = UploadMemory::new();
        let mut held = Vec::new();
        for _ in 0..10 {
            held.push(memory.reserve(16 * MIB, 16 * MIB).await.unwrap());
        }
        assert!(Arc::clone(&memory.permits).try_acquire_owned().is_err(), "all of it");
        drop(held.pop());
        assert_eq!(memory.free.lock().unwrap().len(), 1);
        // A last part, that is smaller, takes the memory of a whole one.
        let mut part = memory.reserve(2 * MIB, 16 * MIB).await.unwrap();
        assert_eq!(memory.free.lock().unwrap().len(), 0);
        part.bytes_mut().fill(7);
        let (bytes, other) = (part.shared(), memory.permits.available_permits());
        assert_eq!((bytes.len(), bytes[2 * MIB - 1], other), (2 * MIB, 7, 0));
        let clone = bytes.clone();
        drop(bytes);
        assert_eq!(memory.permits.available_permits(), 0, "somebody may still send it");
        drop(clone);
        assert_eq!(memory.permits.available_permits(), 16);
        drop(held);
        // Of another size there are none, and those that are there are let go of.
        drop(memory.reserve(32 * MIB, 32 * MIB).await.unwrap());
        let sizes: Vec<usize> = memory.free.lock().unwrap().iter().map(|free| free.len()).collect();
        assert_eq!((sizes, memory.permits.available_permits()), (vec![32 * MIB], 160));
    }

    #[tokio::test]
    async fn small_ones_have_no_mapping() {
        let memory = UploadMemory::new();
        drop((memory.reserve(0, 16 * MIB).await.unwrap(), memory.reserve(MIB, 16 * MIB).await.unwrap()));
        assert!(memory.free.lock().unwrap().is_empty());
    }
}

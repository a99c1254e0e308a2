//! A list in chunks: it grows without moving what is in it, and without leaving holes in the heap.
//!
//! A plain list of a million records is copied to a larger place again and again, and the places it
//! leaves fit nothing else. Here a record stays where it is, and at most one chunk is partly empty.

/// Items in a chunk.
const CHUNK: usize = 256;

/// A list in chunks.
#[derive(Debug)]
pub(super) struct Chunks<T> {
    chunks: Vec<Vec<T>>,
    length: usize,
}

impl<T> Chunks<T> {
    pub(super) const fn new() -> Chunks<T> {
        Chunks { chunks: Vec::new(), length: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.length
    }

    #[inline]
    pub(super) fn get(&self, position: usize) -> Option<&T> {
        self.chunks.get(position / CHUNK)?.get(position % CHUNK)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, position: usize) -> Option<&mut T> {
        self.chunks.get_mut(position / CHUNK)?.get_mut(position % CHUNK)
    }

    /// Adds an item at the end.
    pub(super) fn push(&mut self, item: T) {
        match self.chunks.last_mut() {
            Some(last) if last.len() < CHUNK => last.push(item),
            _ => {
                // The first one grows by itself: most partitions of a small system hold a handful.
                let mut chunk = if self.chunks.is_empty() { Vec::new() } else { Vec::with_capacity(CHUNK) };
                chunk.push(item);
                self.chunks.push(chunk);
            }
        }
        self.length += 1;
    }

    /// Takes an item out; the last one takes its place.
    pub(super) fn swap_remove(&mut self, position: usize) -> Option<T> {
        if position >= self.length {
            return None;
        }
        let chunk = self.chunks.last_mut()?;
        let last = chunk.pop()?;
        if chunk.is_empty() {
            self.chunks.pop();
        }
        self.length -= 1;
        if position == self.length {
            return Some(last);
        }
        self.get_mut(position).map(|item| std::mem::replace(item, last))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_does_what_a_plain_list_does() {
        let (mut chunks, mut list) = (Chunks::new(), Vec::new());
        for n in 0..2_000_usize {
            chunks.push(n);
            list.push(n);
            if n % 3 == 0 {
                let at = n * 7_919 % list.len();
                assert_eq!(chunks.swap_remove(at), Some(list.swap_remove(at)));
            }
        }
        assert!(chunks.iter().eq(&list));
        assert_eq!((chunks.len(), chunks.get(5), chunks.get(list.len())), (list.len(), list.get(5), None));
        while let Some(expected) = list.pop() {
            assert_eq!(chunks.swap_remove(chunks.len() - 1), Some(expected));
        }
        assert_eq!(chunks.swap_remove(0), None);
    }
}

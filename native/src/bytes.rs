//! Big-endian integers at places of a buffer.  Callers have checked that they are all there.

pub fn i16_at(buffer: &[u8], at: usize) -> i16 {
    i16::from_be_bytes([buffer[at], buffer[at + 1]])
}

pub fn i32_at(buffer: &[u8], at: usize) -> i32 {
    i32::from_be_bytes(buffer[at..at + 4].try_into().unwrap())
}

pub fn u32_at(buffer: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(buffer[at..at + 4].try_into().unwrap())
}

pub fn i64_at(buffer: &[u8], at: usize) -> i64 {
    i64::from_be_bytes(buffer[at..at + 8].try_into().unwrap())
}

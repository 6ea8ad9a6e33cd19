//! Whole frames of a stream of bytes; the twin of `kernel/python/frames.py`.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::bytes::{i32_at, u32_at};

const PREFIX_BYTES: i64 = 8;
const HEADER_BYTES_MASK: u32 = 0xFF_FF_FF;
const FORM_MAX: u32 = 1;

#[pyfunction]
pub fn cut_frames<'py>(
    py: Python<'py>,
    data: &Bound<'py, PyBytes>,
    bytes_max: i64,
    header_bytes_max: i64,
    cut: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let octets = data.as_bytes();
    let frames = PyList::empty(py);
    let (mut at, end) = (0_i64, octets.len() as i64);
    let mut wanted = PREFIX_BYTES;
    while end - at >= PREFIX_BYTES {
        let start = at as usize;
        let (length, word) = (i32_at(octets, start), u32_at(octets, start + 4));
        let form = word >> 24;
        let size = 4 + i64::from(length);
        let header_size = PREFIX_BYTES + i64::from(word & HEADER_BYTES_MASK);
        let is_wrong = header_size > size || size > bytes_max || form > FORM_MAX;
        if is_wrong || header_size > PREFIX_BYTES + header_bytes_max {
            return cut.call1((PyList::empty(py), at, 0, (length, word)));
        }
        if at + size > end {
            wanted = size;
            break;
        }
        let (body_at, stop) = (start + header_size as usize, start + size as usize);
        let header = PyBytes::new(py, &octets[start + PREFIX_BYTES as usize..body_at]);
        frames.append((form, header, PyBytes::new(py, &octets[body_at..stop])))?;
        at += size;
    }
    cut.call1((frames, at, wanted, py.None()))
}

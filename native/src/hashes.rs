//! Hashes of keys for the index; the twin of `kernel/python/key_hashes.py`.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple};

use crate::bytes::i64_at;

type Arrays<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>, Bound<'py, PyBytes>);

/// Java's hash of a text behind one whose hash is given, over its UTF-16 units.
fn java_hash(text: &Bound<'_, PyString>, start: u32) -> PyResult<u32> {
    let step = |hash: u32, unit: u16| hash.wrapping_mul(31).wrapping_add(u32::from(unit));
    if let Ok(plain) = text.to_str() {
        if plain.is_ascii() {
            return Ok(plain.bytes().fold(start, |hash, unit| step(hash, u16::from(unit))));
        }
        return Ok(plain.encode_utf16().fold(start, step));
    }
    // half of a pair of units stands alone
    let octets = text.call_method1("encode", ("utf-16-le", "surrogatepass"))?;
    let octets = octets.cast_into::<PyBytes>()?;
    let units = octets.as_bytes().chunks_exact(2);
    Ok(units.fold(start, |hash, two| step(hash, u16::from_le_bytes([two[0], two[1]]))))
}

#[pyfunction]
pub fn hash_keys<'py>(
    py: Python<'py>,
    records: &Bound<'py, PyList>,
    keys: &Bound<'py, PyList>,
) -> PyResult<Arrays<'py>> {
    let room = keys.len() * 8;
    let (mut hashes, mut offsets) = (Vec::with_capacity(room), Vec::with_capacity(room));
    let mut times = Vec::with_capacity(room);
    let mut own: Vec<i64> = Vec::new();
    let mut prefix: Option<(Bound<'py, PyAny>, u32)> = None;
    let mut all = keys.iter();
    for record in records.iter() {
        let record = record.cast_into::<PyTuple>()?;
        let topic = record.get_item(0)?;
        let count: usize = record.get_borrowed_item(1)?.extract()?;
        let place = record.get_item(2)?;
        let store_ms: i64 = record.get_borrowed_item(3)?.extract()?;
        let start = match &prefix {
            Some((known, hash)) if known.is(&topic) => *hash,
            _ => {
                let hash = java_hash(topic.cast::<PyString>()?, 0)?;
                let hash = hash.wrapping_mul(31).wrapping_add(u32::from(b'#'));
                prefix = Some((topic, hash));
                hash
            }
        };
        own.clear();
        for _ in 0..count {
            let key = all.next().ok_or_else(|| PyValueError::new_err("there are too few keys"))?;
            let hash = java_hash(key.cast::<PyString>()?, start)? as i32;
            own.push(if hash == i32::MIN { 0 } else { i64::from(hash).abs() });
        }
        let mut add = |log_offset: i64| {
            for size in &own {
                hashes.extend_from_slice(&size.to_ne_bytes());
                offsets.extend_from_slice(&log_offset.to_ne_bytes());
                times.extend_from_slice(&store_ms.to_ne_bytes());
            }
        };
        match place.cast::<PyBytes>() {
            Ok(units) => units.as_bytes().chunks_exact(20).for_each(|unit| add(i64_at(unit, 0))),
            Err(_) => add(place.extract()?),
        }
    }
    Ok((PyBytes::new(py, &hashes), PyBytes::new(py, &offsets), PyBytes::new(py, &times)))
}

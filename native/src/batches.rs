//! A batch that came in one send; the twin of `kernel/python/batches.py`.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

use crate::bytes::{i16_at, i32_at};
use crate::records::CRC_MASK;
use crate::sends::{octets_of, write_hex, PROPERTIES_BYTES_MAX};

const ENTRIES_MAX: usize = 262_144;
const ENTRY_HEAD_BYTES: i64 = 20;
const UNIQUE_ID_START: &[u8] = b"UNIQ_KEY\x01";
const SEPARATOR: u8 = 2;

/// One message of a batch.
struct Entry<'a> {
    body: &'a [u8],
    text: &'a [u8],
    flag: i32,
}

impl Entry<'_> {
    /// Whether the properties lack the separator behind the last one.
    fn is_open(&self) -> bool {
        self.text.last() != Some(&SEPARATOR)
    }
}

fn split(octets: &[u8]) -> Option<Vec<Entry<'_>>> {
    let mut entries = Vec::new();
    let (mut at, end) = (0_i64, octets.len() as i64);
    while at < end {
        if end - at < ENTRY_HEAD_BYTES + 2 || entries.len() >= ENTRIES_MAX {
            return None;
        }
        let start = at as usize;
        let stop = at + i64::from(i32_at(octets, start));
        let body_bytes = i64::from(i32_at(octets, start + 16));
        let body_stop = at + ENTRY_HEAD_BYTES + body_bytes;
        if body_bytes < 0 || body_stop + 2 > stop || stop > end {
            return None;
        }
        let (body_at, body_stop) = (start + ENTRY_HEAD_BYTES as usize, body_stop as usize);
        if (body_stop + 2) as i64 + i64::from(i16_at(octets, body_stop)) != stop {
            return None;
        }
        entries.push(Entry {
            body: &octets[body_at..body_stop],
            text: &octets[body_stop + 2..stop as usize],
            flag: i32_at(octets, start + 12),
        });
        at = stop;
    }
    (!entries.is_empty()).then_some(entries)
}

fn separators(text: &[u8]) -> usize {
    text.iter().filter(|&&octet| octet == SEPARATOR).count()
}

/// What follows the unique id in all properties, closed by a separator.
fn rest_of_all(entries: &[Entry<'_>]) -> Option<Vec<u8>> {
    let first = &entries[0];
    let at = first.text.iter().position(|&octet| octet == SEPARATOR);
    let mut rest = first.text[at.unwrap_or(first.text.len())..].to_vec();
    if first.is_open() {
        rest.push(SEPARATOR);
    }
    let wanted = separators(&rest);
    let are_alike = entries.iter().all(|entry| {
        let ending = if entry.is_open() { &rest[..rest.len() - 1] } else { &rest[..] };
        entry.text.starts_with(UNIQUE_ID_START)
            && entry.text.ends_with(ending)
            && separators(entry.text) + usize::from(entry.is_open()) == wanted
    });
    are_alike.then_some(rest)
}

#[pyfunction]
pub fn lay_out_batch<'py>(
    py: Python<'py>,
    body: &Bound<'py, PyBytes>,
    form: &Bound<'py, PyTuple>,
    room: (i64, i64, i64, usize, usize, usize, i64),
    found_by: &Bound<'py, PyAny>,
    laid_batch: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let (start, log_stop, mut queue_offset, record_bytes_max, each_bytes, bytes_max, now_ms) = room;
    let octets = body.as_bytes();
    let nothing = || Ok(py.None().into_bound(py));
    let Some(entries) = split(octets) else { return nothing() };
    if octets.len() + each_bytes * entries.len() > bytes_max {
        return nothing();
    }
    let Some(rest) = rest_of_all(&entries) else { return nothing() };
    let fixed_bytes: usize = form.get_item(0)?.extract()?;
    let (magic, queue_id, sys_flag) =
        (octets_of(form, 1)?, octets_of(form, 2)?, octets_of(form, 3)?);
    let (born_host, store_rest, topic_field) =
        (octets_of(form, 4)?, octets_of(form, 5)?, octets_of(form, 6)?);
    let (topic, common) = (form.get_item(7)?, octets_of(form, 8)?);
    let (born_ms, id_prefix): (i64, _) = (form.get_item(9)?.extract()?, octets_of(form, 10)?);
    let common_bytes = common.as_bytes();
    let text_bytes =
        |entry: &Entry<'_>| entry.text.len() + usize::from(entry.is_open()) + common_bytes.len();
    let mut total = 0;
    for entry in &entries {
        let size = fixed_bytes + entry.body.len() + text_bytes(entry);
        if text_bytes(entry) > PROPERTIES_BYTES_MAX || size > record_bytes_max {
            return nothing();
        }
        total += size;
    }
    if start + total as i64 > log_stop || total > bytes_max {
        return nothing();
    }
    let (code, own_keys): (i64, Vec<Bound<'py, PyAny>>) =
        found_by.call1((PyBytes::new(py, &rest),))?.extract()?;
    let mut records: Vec<u8> = Vec::with_capacity(total);
    let mut units: Vec<u8> = Vec::with_capacity(entries.len() * 20);
    let mut ids: Vec<u8> = Vec::new();
    let (codes, keys, keyed) = (PyList::empty(py), PyList::empty(py), PyList::empty(py));
    let mut log_offset = start;
    for entry in &entries {
        let size = fixed_bytes + entry.body.len() + text_bytes(entry);
        records.extend_from_slice(&(size as i32).to_be_bytes());
        records.extend_from_slice(magic.as_bytes());
        records.extend_from_slice(&(crc32fast::hash(entry.body) & CRC_MASK).to_be_bytes());
        records.extend_from_slice(queue_id.as_bytes());
        records.extend_from_slice(&entry.flag.to_be_bytes());
        records.extend_from_slice(&queue_offset.to_be_bytes());
        records.extend_from_slice(&log_offset.to_be_bytes());
        records.extend_from_slice(sys_flag.as_bytes());
        records.extend_from_slice(&born_ms.to_be_bytes());
        records.extend_from_slice(born_host.as_bytes());
        records.extend_from_slice(&now_ms.to_be_bytes());
        records.extend_from_slice(store_rest.as_bytes());
        records.extend_from_slice(&(entry.body.len() as i32).to_be_bytes());
        records.extend_from_slice(entry.body);
        records.extend_from_slice(topic_field.as_bytes());
        records.extend_from_slice(&(text_bytes(entry) as i16).to_be_bytes());
        records.extend_from_slice(entry.text);
        if entry.is_open() {
            records.push(SEPARATOR);
        }
        records.extend_from_slice(common_bytes);
        units.extend_from_slice(&log_offset.to_be_bytes());
        units.extend_from_slice(&(size as i32).to_be_bytes());
        units.extend_from_slice(&code.to_be_bytes());
        if !ids.is_empty() {
            ids.push(b',');
        }
        ids.extend_from_slice(id_prefix.as_bytes());
        write_hex(&mut ids, log_offset);
        codes.append(code)?;
        for key in &own_keys {
            keys.append(key)?;
        }
        if !own_keys.is_empty() {
            keyed.append((&topic, own_keys.len(), log_offset, now_ms))?;
        }
        queue_offset += 1;
        log_offset += size as i64;
    }
    let (records, units) = (PyBytes::new(py, &records), PyBytes::new(py, &units));
    laid_batch.call1((records, units, codes, keys, keyed, PyBytes::new(py, &ids)))
}

//! A batch that came in one send; the twin of `kernel/python/batches.py`.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};

use crate::bytes::{i16_at, i32_at, i64_at};
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

    /// With that separator.
    fn text_bytes(&self) -> usize {
        self.text.len() + usize::from(self.is_open())
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

/// A `BatchForm`.
pub struct BatchForm<'py> {
    rests: Bound<'py, PyDict>,
    id_prefix: Bound<'py, PyBytes>,
    each_bytes: usize,
}

impl<'py> BatchForm<'py> {
    pub fn new(form: &Bound<'py, PyAny>) -> PyResult<Option<Self>> {
        if form.is_none() {
            return Ok(None);
        }
        let form = form.cast::<PyTuple>()?;
        Ok(Some(BatchForm {
            rests: form.get_item(0)?.cast_into::<PyDict>()?,
            id_prefix: octets_of(form, 1)?,
            each_bytes: form.get_item(2)?.extract()?,
        }))
    }
}

/// What a batch may take: of one record, of all, and up to where in the log.
pub struct Limits {
    pub record_bytes_max: usize,
    pub batch_bytes_max: usize,
    pub log_stop: i64,
}

/// The messages of a batch that is taken.
pub struct Batch<'a, 'py> {
    entries: Vec<Entry<'a>>,
    pub total: usize,
    pub tags_code: i64,
    pub keys: Vec<Bound<'py, PyAny>>,
}

/// What the records of a batch have in common, in the order of a record.
pub struct Alike<'a> {
    pub fixed_bytes: usize,
    pub magic: &'a [u8],
    pub queue_id: i32,
    /// From the system flag to the length of the body.
    pub middle: Vec<u8>,
    pub topic_field: &'a [u8],
    /// What the properties of all end with.
    pub common: Vec<u8>,
}

impl<'a, 'py> Batch<'a, 'py> {
    /// The parts of a batch that is taken: what `split_batch` gives.
    pub fn split(
        py: Python<'py>,
        body: &'a [u8],
        form: &BatchForm<'py>,
        fixed_bytes: usize,
        common_bytes: usize,
        log_offset: i64,
        limits: &Limits,
    ) -> PyResult<Option<Self>> {
        let Some(entries) = split(body) else { return Ok(None) };
        if body.len() + form.each_bytes * entries.len() > limits.batch_bytes_max {
            return Ok(None);
        }
        let Some(rest) = rest_of_all(&entries) else { return Ok(None) };
        let Some(known) = form.rests.get_item(PyBytes::new(py, &rest))? else { return Ok(None) };
        let mut total = 0;
        for entry in &entries {
            let text_bytes = entry.text_bytes() + common_bytes;
            let size = fixed_bytes + entry.body.len() + text_bytes;
            if text_bytes > PROPERTIES_BYTES_MAX || size > limits.record_bytes_max {
                return Ok(None);
            }
            total += size;
        }
        if log_offset + total as i64 > limits.log_stop || total > limits.batch_bytes_max {
            return Ok(None);
        }
        let known = known.cast::<PyTuple>()?;
        let tags_code = known.get_item(0)?.extract()?;
        let keys = known.get_item(1)?.try_iter()?.collect::<PyResult<_>>()?;
        Ok(Some(Batch { entries, total, tags_code, keys }))
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Write the records and their units.
    pub fn write(
        &self,
        records: &mut Vec<u8>,
        units: &mut Vec<u8>,
        alike: &Alike<'_>,
        mut log_offset: i64,
        mut queue_offset: i64,
    ) {
        records.reserve(self.total);
        units.reserve(self.entries.len() * 20);
        for entry in &self.entries {
            let text_bytes = entry.text_bytes() + alike.common.len();
            let size = alike.fixed_bytes + entry.body.len() + text_bytes;
            records.extend_from_slice(&(size as i32).to_be_bytes());
            records.extend_from_slice(alike.magic);
            records.extend_from_slice(&(crc32fast::hash(entry.body) & CRC_MASK).to_be_bytes());
            records.extend_from_slice(&alike.queue_id.to_be_bytes());
            records.extend_from_slice(&entry.flag.to_be_bytes());
            records.extend_from_slice(&queue_offset.to_be_bytes());
            records.extend_from_slice(&log_offset.to_be_bytes());
            records.extend_from_slice(&alike.middle);
            records.extend_from_slice(&(entry.body.len() as i32).to_be_bytes());
            records.extend_from_slice(entry.body);
            records.extend_from_slice(alike.topic_field);
            records.extend_from_slice(&(text_bytes as i16).to_be_bytes());
            records.extend_from_slice(entry.text);
            if entry.is_open() {
                records.push(SEPARATOR);
            }
            records.extend_from_slice(&alike.common);
            units.extend_from_slice(&log_offset.to_be_bytes());
            units.extend_from_slice(&(size as i32).to_be_bytes());
            units.extend_from_slice(&self.tags_code.to_be_bytes());
            queue_offset += 1;
            log_offset += size as i64;
        }
    }
}

/// The ids of the messages of a batch, without the start of the first.
pub fn write_ids(out: &mut Vec<u8>, form: &BatchForm<'_>, units: &[u8]) {
    let prefix = form.id_prefix.as_bytes();
    out.reserve(units.len() / 20 * (prefix.len() + 17));
    for (number, unit) in units.chunks_exact(20).enumerate() {
        if number > 0 {
            out.push(b',');
            out.extend_from_slice(prefix);
        }
        write_hex(out, i64_at(unit, 0));
    }
}

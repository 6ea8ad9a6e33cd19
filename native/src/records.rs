//! Records as messages for a consumer; the twin of `kernel/python/plain_records.py`.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple};

use crate::bytes::{i16_at, i32_at, i64_at, u32_at};

pub const MAGIC_V1: u32 = 0xDAA3_20A7;
pub const CRC_MASK: u32 = 0x7FFF_FFFF;
pub const RECORD_BYTES_MAX: i64 = 64 * 1024 * 1024;
pub const RECORD_BYTES_MIN: usize = HEAD_BYTES + 3;

/// Offsets of a record with two IPv4 hosts; see `kernel/layout.py`.
pub const HEAD_BYTES: usize = 88;
pub const CRC_AT: usize = 8;
pub const QUEUE_ID_AT: usize = 12;
pub const FLAG_AT: usize = 16;
pub const QUEUE_OFFSET_AT: usize = 20;
pub const LOG_OFFSET_AT: usize = 28;
pub const SYS_FLAG_AT: usize = 36;
pub const BORN_MS_AT: usize = 40;
pub const BORN_HOST_AT: usize = 48;
pub const STORE_MS_AT: usize = 56;
pub const STORE_HOST_AT: usize = 64;
pub const RECONSUME_TIMES_AT: usize = 72;
pub const PREPARED_OFFSET_AT: usize = 76;
pub const BODY_LENGTH_AT: usize = 84;

/// Packed bodies, IPv6 hosts and inner batches; see `model/sys_flag.py`.
const NOT_PLAIN: i32 = 1 | 1 << 4 | 1 << 5 | 1 << 6;

/// Where the parts of a plain record are.
struct Plain {
    body_stop: usize,
    topic_stop: usize,
    stop: usize,
}

/// The parts of the record at a place, if it is plain, whole and its body is what was stored.
fn plain_at(buffer: &[u8], at: usize) -> Option<Plain> {
    if buffer.len() - at < RECORD_BYTES_MIN {
        return None;
    }
    let size = i64::from(i32_at(buffer, at));
    let body_length = i64::from(i32_at(buffer, at + BODY_LENGTH_AT));
    if u32_at(buffer, at + 4) != MAGIC_V1 || i32_at(buffer, at + SYS_FLAG_AT) & NOT_PLAIN != 0 {
        return None;
    }
    let body_at = at + HEAD_BYTES;
    if body_length < 0 || size > RECORD_BYTES_MAX || (HEAD_BYTES as i64) + body_length + 3 > size {
        return None;
    }
    let (body_stop, stop) = (body_at + body_length as usize, at + size as usize);
    if stop > buffer.len() {
        return None;
    }
    let topic_length = buffer[body_stop] as usize;
    let topic_stop = body_stop + 1 + topic_length;
    if topic_length >= 128 || topic_stop + 2 > stop {
        return None;
    }
    if i64::from(i16_at(buffer, topic_stop)) != (stop - topic_stop - 2) as i64 {
        return None;
    }
    let crc = u32_at(buffer, at + CRC_AT);
    if crc != 0 && crc != crc32fast::hash(&buffer[body_at..body_stop]) & CRC_MASK {
        return None;
    }
    Some(Plain { body_stop, topic_stop, stop })
}

/// The value of a piece of the buffer that mostly is the same as in the record before.
struct Kept<'a, 'py> {
    octets: &'a [u8],
    value: Option<Bound<'py, PyAny>>,
}

impl<'a, 'py> Kept<'a, 'py> {
    fn new() -> Self {
        Kept { octets: &[], value: None }
    }

    fn of(
        &mut self,
        octets: &'a [u8],
        make: impl FnOnce(&'a [u8]) -> PyResult<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if let Some(value) = &self.value {
            if self.octets == octets {
                return Ok(value.clone());
            }
        }
        let value = make(octets)?;
        self.octets = octets;
        self.value = Some(value.clone());
        Ok(value)
    }
}

/// The messages of the plain records from `at` on; where the first is that is not plain.
///
/// `wishes` are broker, queue id or None, delta of offsets, what makes properties, and its memo.
#[pyfunction]
pub fn read_plain<'py>(
    py: Python<'py>,
    buffer: &Bound<'py, PyBytes>,
    mut at: usize,
    wishes: &Bound<'py, PyTuple>,
    hosts: &Bound<'py, PyAny>,
    message: &Bound<'py, PyAny>,
    new: &Bound<'py, PyAny>,
) -> PyResult<(Bound<'py, PyList>, usize)> {
    let octets = buffer.as_bytes();
    let (broker, queue_id) = (wishes.get_item(0)?, wishes.get_item(1)?);
    let delta = wishes.get_item(2)?;
    let plain_delta: i64 = if delta.is_truthy()? { delta.extract().unwrap_or(0) } else { 0 };
    let is_plain_delta = plain_delta != 0 || !delta.is_truthy()?;
    let (later, memo) = (wishes.get_item(3)?, wishes.get_item(4)?);
    let int = |value: i64| -> PyResult<Bound<'py, PyAny>> {
        Ok(value.into_pyobject(py)?.into_any())
    };
    let host_of = |octets: &[u8]| hosts.get_item(PyBytes::new(py, octets));
    let (mut topic, mut born, mut store) = (Kept::new(), Kept::new(), Kept::new());
    let mut times = Kept::new(); // of reconsumption, and the flags: small numbers
    let found = PyList::empty(py);
    while at <= octets.len() {
        let Some(part) = plain_at(octets, at) else { break };
        let name = &octets[part.body_stop + 1..part.topic_stop];
        if topic.value.is_none() || topic.octets != name {
            let Ok(text) = std::str::from_utf8(name) else { break };
            topic.octets = name;
            topic.value = Some(PyString::new(py, text).into_any());
        }
        let own_offset = i64_at(octets, at + QUEUE_OFFSET_AT);
        let queue_offset = match own_offset.checked_add(plain_delta) {
            Some(sum) if is_plain_delta => int(sum)?,
            _ => int(own_offset)?.add(&delta)?,
        };
        let own_queue = i64::from(i32_at(octets, at + QUEUE_ID_AT));
        let properties = PyBytes::new(py, &octets[part.topic_stop + 2..part.stop]);
        let fields = PyTuple::new(
            py,
            [
                topic.value.clone().expect("it was set above"),
                broker.clone(),
                if queue_id.is_none() { int(own_queue)? } else { queue_id.clone() },
                queue_offset,
                int(i64_at(octets, at + LOG_OFFSET_AT))?,
                PyBytes::new(py, &octets[at + HEAD_BYTES..part.body_stop]).into_any(),
                later.call1((properties, &memo))?,
                int(i64::from(i32_at(octets, at + FLAG_AT)))?,
                int(i64::from(i32_at(octets, at + SYS_FLAG_AT)))?,
                int(i64_at(octets, at + BORN_MS_AT))?,
                born.of(&octets[at + BORN_HOST_AT..at + STORE_MS_AT], host_of)?,
                int(i64_at(octets, at + STORE_MS_AT))?,
                store.of(&octets[at + STORE_HOST_AT..at + RECONSUME_TIMES_AT], host_of)?,
                times.of(&octets[at + RECONSUME_TIMES_AT..at + PREPARED_OFFSET_AT], |four| {
                    int(i64::from(i32_at(four, 0)))
                })?,
                int(i64_at(octets, at + PREPARED_OFFSET_AT))?,
                int((part.stop - at) as i64)?,
            ],
        )?;
        found.append(new.call1((message, fields))?)?;
        at = part.stop;
    }
    Ok((found, at))
}

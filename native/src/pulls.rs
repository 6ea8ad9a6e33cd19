//! The records of a pull; the twin of `kernel/python/pulls.py`.

use pyo3::buffer::{PyBuffer, ReadOnlyCell};
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::bytes::{i32_at, i64_at};
use crate::records::{
    BODY_LENGTH_AT, HEAD_BYTES, LOG_OFFSET_AT, MAGIC_V1, QUEUE_ID_AT, QUEUE_OFFSET_AT,
    RECORD_BYTES_MIN, SYS_FLAG_AT,
};

const MAGIC_V2: u32 = 0xDAA3_20AB;
const V6_BITS: i32 = 1 << 4 | 1 << 5;
const V6_BYTES_MORE: usize = 12;
const UNIT_BYTES: usize = 20;

type Cells = [ReadOnlyCell<u8>];

/// Some bytes of a file that others may write at the same time.
fn copied<const N: usize>(view: &Cells, at: usize) -> [u8; N] {
    let cells = &view[at..at + N];
    std::array::from_fn(|n| cells[n].get())
}

/// What one record must be.
struct Wanted<'a> {
    log_offset: i64,
    queue_offset: i64,
    size: i32,
    queue_id: i32,
    topic: &'a [u8],
}

impl Wanted<'_> {
    /// Whether the record between two places of a file is the one; all of it is there.
    fn is_at(&self, view: &Cells, at: usize, stop: usize) -> bool {
        let head: [u8; HEAD_BYTES] = copied(view, at);
        let magic = i32_at(&head, 4) as u32;
        if i64_at(&head, LOG_OFFSET_AT) != self.log_offset
            || i64_at(&head, QUEUE_OFFSET_AT) != self.queue_offset
            || i32_at(&head, 0) != self.size
            || i32_at(&head, QUEUE_ID_AT) != self.queue_id
            || (magic != MAGIC_V1 && magic != MAGIC_V2)
        {
            return false;
        }
        let (mut body_at, mut body_bytes) = (at + HEAD_BYTES, i32_at(&head, BODY_LENGTH_AT));
        let hosts = i32_at(&head, SYS_FLAG_AT) & V6_BITS;
        if hosts != 0 {
            body_at += V6_BYTES_MORE * hosts.count_ones() as usize;
            if body_at > stop {
                return false;
            }
            body_bytes = i32::from_be_bytes(copied(view, body_at - 4));
        }
        if body_bytes < 0 || body_at + body_bytes as usize + self.topic.len() > stop {
            return false;
        }
        let topic_at = body_at + body_bytes as usize;
        let own = &view[topic_at..topic_at + self.topic.len()];
        own.iter().zip(self.topic).all(|(cell, octet)| cell.get() == *octet)
    }
}

#[pyfunction]
#[allow(clippy::too_many_arguments)]
pub fn find_records<'py>(
    py: Python<'py>,
    units: &Bound<'py, PyBytes>,
    first_offset: i64,
    view: &Bound<'py, PyAny>,
    low: i64,
    high: i64,
    log_from: i64,
    bytes_max: i64,
    queue_id: i32,
    topic: &Bound<'py, PyBytes>,
) -> PyResult<(usize, Bound<'py, PyList>)> {
    let buffer = PyBuffer::<u8>::get(view)?;
    let Some(cells) = buffer.as_slice(py) else {
        return Err(PyBufferError::new_err("the bytes of a file lie one after the other"));
    };
    let stop_max = high.saturating_sub(low).min(cells.len() as i64);
    let from = low.max(log_from);
    let (mut bytes_left, mut queue_offset, topic) = (bytes_max, first_offset, topic.as_bytes());
    let spans = PyList::empty(py);
    let (mut taken, mut first, mut last) = (0, 0, 0);
    for unit in units.as_bytes().chunks_exact(UNIT_BYTES) {
        let (log_offset, size) = (i64_at(unit, 0), i32_at(unit, 8));
        bytes_left = bytes_left.saturating_sub(i64::from(size));
        if log_offset < from || size < RECORD_BYTES_MIN as i32 || bytes_left < 0 {
            break;
        }
        let at = log_offset.saturating_sub(low);
        let stop = at.saturating_add(i64::from(size));
        if stop > stop_max {
            break;
        }
        let (at, stop) = (at as usize, stop as usize);
        if !(Wanted { log_offset, queue_offset, size, queue_id, topic }).is_at(cells, at, stop) {
            break;
        }
        if taken > 0 && at != last {
            spans.append((first, last))?;
        }
        if taken == 0 || at != last {
            first = at;
        }
        last = stop;
        taken += 1;
        queue_offset += 1;
    }
    if taken > 0 {
        spans.append((first, last))?;
    }
    Ok((taken, spans))
}
